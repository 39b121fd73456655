/** The diffs of one file in all versions: side by side, or as tabs on a phone. */
import { useEffect, useState } from "preact/hooks";

import { counted } from "../format";
import { sanitised } from "../html";
import { PHONE, useMedia } from "../media";
import type { ChangedFile, DiffLine, Version } from "../protocol";
import { useRequest } from "../requests";
import { Counts } from "../review/Counts";
import { hiddenLines } from "../review/gaps";
import { versions as numbers } from "../store";
import { Problem, Spinner, Tabs } from "../ui";
import { Select } from "../ui/select";
import { visibleLine } from "../visible-text";
import { type FilesByVersion, filesOf } from "./comparison";
import "../review/review.css";

const SIGNS: Readonly<Record<DiffLine["kind"], string>> = { same: " ", added: "+", removed: "−", gap: "" };

export function FileVersions({ versions, files }: { versions: readonly Version[]; files: FilesByVersion }) {
  const [wanted, setWanted] = useState("");
  const listed = filesOf(versions, files);
  const path = listed.find((file) => file.path === wanted)?.path ?? listed[0]?.path;
  if (path === undefined) return null;
  return (
    <section class="file-versions" aria-label="Compare a file">
      <div class="file-versions-head">
        <h2>Compare a file</h2>
        <Select
          label="File"
          value={path}
          change={setWanted}
          options={listed.map((file) => ({
            value: file.path,
            label: `${visibleLine(file.path)} (${file.by} of ${versions.length})`,
          }))}
        />
      </div>
      <Columns versions={versions} files={files} path={path} />
    </section>
  );
}

interface Compared {
  readonly versions: readonly Version[];
  readonly files: FilesByVersion;
  readonly path: string;
}

function Columns({ versions, files, path }: Compared) {
  const phone = useMedia(PHONE);
  const [wanted, setWanted] = useState("");
  const fileOf = (version: Version) => files.get(version.session_id)?.find((file) => file.path === path) ?? null;
  if (!phone) {
    return (
      <div class="file-columns" tabIndex={0} role="group" aria-label={`${visibleLine(path)} in each version`}>
        {versions.map((version, at) => (
          <section key={version.session_id} class="file-column" aria-label={nameOf(version, at)}>
            <header class="file-column-head">
              <strong>{nameOf(version, at)}</strong>
              <span class="quiet small mono cut grow">{visibleLine(version.model)}</span>
              {fileOf(version) && <Counts file={fileOf(version)!} />}
            </header>
            <FileOfVersion version={version} path={path} file={fileOf(version)} />
          </section>
        ))}
      </div>
    );
  }
  const chosen = versions.find((version) => version.session_id === wanted) ?? versions[0]!;
  return (
    <Tabs
      label="Versions"
      tabs={versions.map((version, at) => ({ id: version.session_id, words: nameOf(version, at) }))}
      chosen={chosen.session_id}
      choose={setWanted}
    >
      <div class="file-column">
        <FileOfVersion key={chosen.session_id} version={chosen} path={path} file={fileOf(chosen)} />
      </div>
    </Tabs>
  );
}

function nameOf(version: Version, at: number): string {
  return `Version ${numbers.value.get(version.session_id) ?? at + 1}`;
}

function FileOfVersion({ version, path, file }: { version: Version; path: string; file: ChangedFile | null }) {
  if (version.worktree_id === "") return <p class="file-note quiet">The worktree was removed.</p>;
  if (!file) return <p class="file-note quiet">Not changed in this version.</p>;
  return <Diff session_id={version.session_id} path={path} digest={file.digest} />;
}

function Diff({ session_id, path, digest }: { session_id: string; path: string; digest: string }) {
  const diff = useRequest("read_diff", { session_id, path, scope: "branch" });
  useEffect(() => {
    if (diff.answer) diff.reload();
  }, [digest]);
  if (!diff.answer) {
    return (
      <div class="file-note">
        {diff.problem ? (
          <Problem words={diff.problem} />
        ) : (
          <Spinner label={`Loading ${visibleLine(path)}`} />
        )}
      </div>
    );
  }
  const { lines, note } = diff.answer;
  return (
    <>
      {note && <p class="file-note quiet">{note}</p>}
      {lines.length > 0 && (
        <table class="review-diff" aria-label={`Changes in ${visibleLine(path)}`}>
          <colgroup>
            <col class="line-cell-column" />
            <col />
          </colgroup>
          <tbody>
            {lines.map((each, at) => (
              <Line key={at} of={each} lines={lines} at={at} />
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Line({ of, lines, at }: { of: DiffLine; lines: readonly DiffLine[]; at: number }) {
  if (of.kind === "gap") {
    const hidden = hiddenLines(lines, at);
    return (
      <tr>
        <td class="file-gap quiet" colSpan={2}>
          {hidden === null ? "…" : counted(hidden, "unchanged line")}
        </td>
      </tr>
    );
  }
  return (
    <tr class={`review-row ${of.kind}`}>
      <td class="line-cell">
        <span class="line-number">{of.new ?? of.old}</span>
      </td>
      <td class={`review-code ${of.kind}`}>
        <span class="line-sign">{SIGNS[of.kind]}</span>
        <code class="code" dangerouslySetInnerHTML={sanitised(of.html)} />
      </td>
    </tr>
  );
}
