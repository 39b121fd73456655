import type { AskedTarget, IntentQuestion } from "../protocol";
import { DiffText } from "../transcript/DiffText";
import { isEdit, objectIn } from "../transcript/row-content";
import { Badge } from "../ui";
import { approvalText, commandText, visibleLine } from "../visible-text";
import { type Ask, prettyJson } from "./ask";

/** Everything the action would do, unabridged. */
export function AskBody({ ask }: { ask: Ask }) {
  return (
    <>
      <Action ask={ask} />
      {ask.governance && <Governance question={ask.governance} />}
    </>
  );
}

function Action({ ask }: { ask: Ask }) {
  if (ask.ask === "command") {
    return (
      <pre class="ask-command">
        {commandText(ask.text)
          .split("\n")
          .map((words, at) => (
            <span key={at} class="ask-command-line">
              {words}
            </span>
          ))}
      </pre>
    );
  }
  const payload = objectIn(ask.text);
  if (ask.diff && isEdit(payload)) return <DiffText diff={ask.diff} whole />;
  if (ask.diff) return <pre class="ask-text">{approvalText(ask.diff)}</pre>;
  return <pre class="ask-text">{commandText(prettyJson(ask.text))}</pre>;
}

const OK_VERDICTS = new Set(["in_scope", "ignored"]);

function Governance({ question }: { question: IntentQuestion }) {
  const name = question.intent_name ? ` “${question.intent_name}”` : "";
  return (
    <div class="ask-governance">
      {question.intent_id && (
        <p>
          <b>{visibleLine(question.intent_id)}</b>
          {visibleLine(name)} owns {question.scope.length ? <Patterns of={question.scope} /> : "no paths"}
        </p>
      )}
      {question.reasons.map((reason) => (
        <p key={reason.code + reason.text} class="ask-note-inside">
          {visibleLine(reason.text)} <code class="quiet small">{visibleLine(reason.code)}</code>
        </p>
      ))}
      {question.targets.length > 0 && (
        <table class="ask-targets">
          <thead>
            <tr>
              <th>Path</th>
              <th>Operation</th>
              <th>Verdict</th>
            </tr>
          </thead>
          <tbody>
            {question.targets.map((target, at) => (
              <Target key={at} target={target} />
            ))}
          </tbody>
        </table>
      )}
      {question.analysis && (
        <p class="quiet small">
          Command analysis: {visibleLine(question.analysis)}; {question.sandboxed ? "sandboxed" : "not sandboxed"}.
        </p>
      )}
    </div>
  );
}

function Target({ target }: { target: AskedTarget }) {
  return (
    <tr>
      <td class="mono">
        {visibleLine(target.path)}
        {target.real_path && <div class="ask-real">resolves to {visibleLine(target.real_path)}</div>}
        {target.nearest && <div class="quiet small">closest path in scope: {visibleLine(target.nearest)}</div>}
      </td>
      <td>{visibleLine(target.op)}</td>
      <td>
        <Badge tone={OK_VERDICTS.has(target.verdict) ? "good" : "bad"}>
          {visibleLine(target.verdict.replaceAll("_", " "))}
        </Badge>
      </td>
    </tr>
  );
}

function Patterns({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((pattern, at) => (
        <span key={pattern}>
          {at > 0 && ", "}
          <code>{visibleLine(pattern)}</code>
        </span>
      ))}
    </>
  );
}
