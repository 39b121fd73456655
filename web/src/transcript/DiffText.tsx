import { counted } from "../format";
import { Button } from "../ui";
import { approvalText } from "../visible-text";
import { diffLines } from "./diff-lines";
import "./diff-text.css";
import { useFold } from "./folds";

const SIGNS = { added: "+", removed: "−", same: "", head: "⋮", raw: "" };
const LINES_AT_FIRST = 16;

/** A diff as text. Approvals show it `whole`; elsewhere it is shortenReferences. */
export function DiffText({ diff, whole = false }: { diff: string; whole?: boolean }) {
  const unfolded = useFold("diff", whole);
  const all = diffLines(approvalText(diff));
  const lines = all[0]?.kind === "head" && !all[0].words ? all.slice(1) : all;
  const shown = unfolded.value ? lines : lines.slice(0, LINES_AT_FIRST);
  const hidden = lines.length - shown.length;
  return (
    <div class="diff-text">
      <div class="diff-scroll" tabIndex={whole ? undefined : 0} role="group" aria-label="Changes">
        <table>
          <tbody>
            {shown.map((line, at) => (
              <tr key={at} class={line.kind}>
                <td class="diff-number">{line.number ?? ""}</td>
                <td class="diff-sign">
                  <span aria-hidden="true">{SIGNS[line.kind]}</span>
                  {(line.kind === "added" || line.kind === "removed") && <span class="spoken">{line.kind}</span>}
                </td>
                <td class="diff-words">{line.words}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hidden > 0 && (
        <Button kind="plain" compact onClick={() => (unfolded.value = true)}>
          Show {counted(hidden, "more line")}
        </Button>
      )}
    </div>
  );
}
