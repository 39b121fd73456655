import { useState } from "preact/hooks";

import { Button } from "../ui";
import { visibleLine } from "../visible-text";

const SHOWN_AT_FIRST = 12;

/** Paths, or sentences about paths. A long list is shortenReferences. */
export function PathList({ paths, label }: { paths: readonly string[]; label: string }) {
  const [all, setAll] = useState(false);
  if (paths.length === 0) return null;
  const shown = all ? paths : paths.slice(0, SHOWN_AT_FIRST);
  return (
    <>
      <ul class="paths" aria-label={label} tabIndex={0}>
        {shown.map((path) => (
          <li key={path}>{visibleLine(path)}</li>
        ))}
      </ul>
      {shown.length < paths.length && (
        <div>
          <Button compact kind="plain" icon="down" onClick={() => setAll(true)}>
            Show all {paths.length}
          </Button>
        </div>
      )}
    </>
  );
}
