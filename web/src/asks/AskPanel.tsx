import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { sanitised } from "../html";
import { list } from "../store";
import { followupOf } from "../transcript/row-content";
import { Button, Key } from "../ui";
import { visibleLine, visibleText } from "../visible-text";
import { Approval } from "./Approval";
import { AskHead } from "./AskHead";
import { approve, choose, reject, sendReply, retry } from "./ask-actions";
import { type Ask, formOf, headOf, wordsOf } from "./ask";
import { useSendAnswer, useAnswerKeys, useSeenLongEnough } from "./ask-hooks";
import "./ask-panel.css";

/**
 * A question of the agent, with everything an approval would allow. `keys`: shortcuts answer this one.
 * `brief`: the words of a failure are in the conversation above.
 */
export function AskPanel({ ask, keys = false, brief = false }: { ask: Ask; keys?: boolean; brief?: boolean }) {
  return (
    <section class={`ask-panel ${formOf(ask.ask)}`} aria-label={headOf(ask)}>
      <AskForm key={`${ask.task_id}/${ask.ts}/${ask.digest}`} ask={ask} keys={keys} brief={brief} />
    </section>
  );
}

function AskForm({ ask, keys, brief }: { ask: Ask; keys: boolean; brief: boolean }) {
  switch (formOf(ask.ask)) {
    case "approval":
      return <Approval ask={ask} keys={keys} />;
    case "limit":
      return <Limit ask={ask} keys={keys} />;
    case "question":
      return <Question ask={ask} />;
    case "failure":
    case "stuck":
      return <Failure ask={ask} brief={brief} />;
    case "rest":
      return null;
  }
}

function Limit({ ask, keys }: { ask: Ask; keys: boolean }) {
  const seen = useSeenLongEnough(ask.partial);
  const { busy, answer } = useSendAnswer();
  const yes = () => seen && !busy && answer(() => approve(ask));
  useAnswerKeys(keys, { a: yes });
  return (
    <>
      <AskHead ask={ask} icon="alert" />
      <Words ask={ask} />
      <div class="ask-buttons">
        <Button kind="primary" icon="play" disabled={!seen || busy} onClick={yes}>
          Continue {keys && <Key>a</Key>}
        </Button>
        <Button disabled={busy} onClick={() => answer(() => reject(ask, ""))}>
          Stop
        </Button>
      </div>
    </>
  );
}

function Question({ ask }: { ask: Ask }) {
  const { busy, answer } = useSendAnswer();
  const { suggestions } = followupOf(ask.text);
  return (
    <>
      <AskHead ask={ask} icon="question" />
      <Words ask={ask} />
      {suggestions.length > 0 && (
        <ul class="suggestions" aria-label="Suggested answers">
          {suggestions.map((each, at) => (
            <li key={at}>
              <button
                type="button"
                class="suggestion"
                disabled={busy || ask.partial}
                onClick={() => answer(() => choose(ask, each))}
              >
                <span class="grow">{visibleText(each.answer)}</span>
                {each.mode && <span class="badge accent">→ {visibleLine(each.mode)}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Failure({ ask, brief }: { ask: Ask; brief: boolean }) {
  const { busy, answer } = useSendAnswer();
  const hint = useSignal("");
  const stuck = formOf(ask.ask) === "stuck";
  const isAboutKey = list.value.rows.get(ask.session_id)?.failure?.kind === "auth";
  return (
    <>
      <AskHead ask={ask} icon="alert" words={isAboutKey ? "The provider rejected the key" : undefined} />
      {!brief && <Words ask={ask} />}
      {isAboutKey && (
        <p class="quiet">
          Set a new key with <code>rookery auth</code>, then try again.
        </p>
      )}
      {stuck && (
        <textarea
          class="input"
          rows={2}
          aria-label="Hint for the agent"
          placeholder="Hint for the agent (optional)"
          value={hint.value}
          onInput={(event) => (hint.value = event.currentTarget.value)}
        />
      )}
      <div class="ask-buttons">
        <Button
          kind="primary"
          icon="retry"
          busy={busy}
          onClick={() => answer(() => (hint.value.trim() ? sendReply(ask, hint.value.trim()) : retry(ask)))}
        >
          {hint.value.trim() ? "Send hint" : "Retry"}
        </Button>
      </div>
    </>
  );
}

function Words({ ask }: { ask: Ask }): ComponentChildren {
  if (ask.html.length) {
    return (
      <div class="prose ask-words">
        {ask.html.map((html, at) => (
          <div key={at} dangerouslySetInnerHTML={sanitised(html)} />
        ))}
      </div>
    );
  }
  return <p class="ask-words">{visibleText(wordsOf(ask))}</p>;
}
