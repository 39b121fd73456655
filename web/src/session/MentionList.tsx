import type { FoundPath } from "../protocol";
import { Icon } from "../ui";
import { visibleLine } from "../visible-text";
import "./mention-list.css";

/** Files to choose from, above the field with the mention. */
export function MentionList(props: { id: string; paths: readonly FoundPath[]; at: number; choose: (found: FoundPath) => void }) {
  return (
    <ul class="path-list" id={props.id} role="listbox" aria-label="Files">
      {props.paths.map((found, at) => (
        <li
          key={found.path}
          id={`${props.id}-${at}`}
          class="path-choice"
          role="option"
          aria-selected={at === props.at}
          onPointerDown={(event) => {
            event.preventDefault(); // the field keeps the focus
            props.choose(found);
          }}
        >
          <Icon name={found.folder ? "folder" : "file"} />
          <span class="cut">{visibleLine(found.path)}</span>
        </li>
      ))}
    </ul>
  );
}
