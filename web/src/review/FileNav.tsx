/** The list of changed files, with a filter and links to the diffs. */
import type { ComponentChildren } from "preact";

import { counted } from "../format";
import type { ChangedFile } from "../protocol";
import { visibleLine } from "../visible-text";
import { KIND_WORDS, folderAndName } from "./changed-files";
import { Counts } from "./Counts";

export function FileNav({
  files,
  total,
  words,
  filter,
  commented,
  seen,
  narrow,
  go,
}: {
  files: readonly ChangedFile[];
  total: number;
  words: string;
  filter: (words: string) => void;
  commented: ReadonlySet<string>;
  seen: (file: ChangedFile) => boolean;
  narrow: boolean;
  go: (path: string) => void;
}) {
  return (
    <Frame narrow={narrow} total={total}>
      <input
        class="input"
        type="search"
        placeholder="Filter files"
        aria-label="Filter files by path, or by +added, +removed, +renamed, +image"
        value={words}
        onInput={(event) => filter(event.currentTarget.value)}
      />
      <p class="quiet small" role="status">
        {files.length === total ? `${total} changed` : `${files.length} of ${total}`}
      </p>
      <ul>
        {files.map((file) => (
          <li key={file.path}>
            <button type="button" class={seen(file) ? "nav-file seen" : "nav-file"} onClick={() => go(file.path)}>
              <FileName file={file} />
              {commented.has(file.path) && <span class="nav-comment" title="Has unsent comments" />}
              <Counts file={file} />
            </button>
          </li>
        ))}
      </ul>
    </Frame>
  );
}

/** Beside the diffs; on narrow screens above them and collapsed. */
function Frame({ narrow, total, children }: { narrow: boolean; total: number; children: ComponentChildren }) {
  if (!narrow) {
    return (
      <nav class="review-nav" aria-label="Changed files">
        {children}
      </nav>
    );
  }
  return (
    <nav aria-label="Changed files">
      <details class="review-fold">
        <summary>{counted(total, "file")}</summary>
        <div class="review-nav">{children}</div>
      </details>
    </nav>
  );
}

function FileName({ file }: { file: ChangedFile }) {
  const { folder, name } = folderAndName(visibleLine(file.path));
  const words = KIND_WORDS[file.kind];
  return (
    <>
      <span class={`file-kind ${file.kind}`} title={words.word}>
        <span aria-hidden="true">{words.sign}</span>
        <span class="spoken">{words.word}</span>
      </span>
      <span class="nav-path" title={visibleLine(file.path)}>
        <span class="nav-name">{name}</span>
        {folder && <span class="nav-folder">{folder}</span>}
      </span>
    </>
  );
}
