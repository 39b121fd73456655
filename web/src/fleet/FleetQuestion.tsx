/** What a session of the fleet asks, with everything an approval would allow, and the answer. */
import { useSignal } from "@preact/signals";
import { type Ask, askOfRow, formOf, headOf, otherNotes, wordsOf } from "../asks/ask";
import { AskBody } from "../asks/AskBody";
import { AskHead } from "../asks/AskHead";
import { useReadToEnd, useSeenLongEnough } from "../asks/ask-hooks";
import "../asks/ask-panel.css";
import { attempt } from "../attempt";
import { ReplyField } from "../inbox/ReplyField";
import type { FleetSession } from "../protocol";
import { followupOf } from "../transcript/row-content";
import { Button, Icon } from "../ui";
import type { ShownRow } from "../view";
import { visibleLine, visibleText } from "../visible-text";

interface Props {
  session: FleetSession;
  rows: readonly ShownRow[];
  changed: () => void;
}

export function FleetQuestion({ session, rows, changed }: Props) {
  const ask = askOf(session, rows);
  return (
    <div class="session-foot">
      <section class="ask-panel" aria-label={headOf(ask)}>
        <Form key={`${ask.digest}/${ask.ts}`} ask={ask} changed={changed} />
      </section>
    </div>
  );
}

/** The question as the conversation has it, with title and diff; or, before that is loaded, as the list has it. */
function askOf({ session_id, code, question, digest }: FleetSession, rows: readonly ShownRow[]): Ask {
  const found = rows
    .map(({ row }) => row.value)
    .findLast((row) => row.ask === code && row.text === question && (!row.digest || row.digest === digest));
  return { ...askOfRow(session_id, session_id, found ?? { ts: 0, type: "ask", ask: code, text: question }), digest };
}

function Form({ ask, changed }: { ask: Ask; changed: () => void }) {
  const sent = useSignal(false);
  const send = async (reply: "yes" | "no" | "message", text = "") => {
    if (sent.value) return null; // the question stays until a worker takes the answer
    sent.value = true;
    const done = await attempt("answer_fleet_session", { id: ask.session_id, reply, text, digest: ask.digest });
    if (done) changed();
    else sent.value = false;
    return done;
  };
  const Answers = formOf(ask.ask) === "question" ? Suggestions : YesOrNo;
  return (
    <>
      <AskHead ask={ask} icon={formOf(ask.ask) === "question" ? "question" : "hand"} />
      <Answers ask={ask} sent={sent.value} send={send} />
      {sent.value && (
        <p class="quiet small" role="status">
          Answer sent. The session continues when a worker takes it.
        </p>
      )}
    </>
  );
}

interface AnswerProps {
  ask: Ask;
  sent: boolean;
  send: (reply: "yes" | "no" | "message", text?: string) => Promise<unknown>;
}

function YesOrNo({ ask, sent, send }: AnswerProps) {
  const seen = useSeenLongEnough(false);
  const read = useReadToEnd();
  return (
    <>
      <div class="ask-scroll" ref={read.box} onScroll={read.onScroll} tabIndex={0} role="group" aria-label="Requested action">
        <AskBody ask={ask} />
      </div>
      {otherNotes(ask).map((note) => (
        <p key={note} class="ask-note">
          <Icon name="alert" /> {visibleLine(note)}
        </p>
      ))}
      <div class="ask-buttons">
        <Button kind="primary" icon="check" disabled={!seen || !read.whole || sent} onClick={() => void send("yes")}>
          Approve
        </Button>
        <span class="grow" />
        {!read.whole && (
          <Button kind="plain" icon="arrowDown" onClick={read.toEnd}>
            Scroll to the end first
          </Button>
        )}
        <Button kind="danger" icon="cross" disabled={sent} onClick={() => void send("no")}>
          Reject
        </Button>
      </div>
      <ReplyField label="Reject, and say what to do instead" send={(text) => send("message", text)} />
    </>
  );
}

function Suggestions({ ask, sent, send }: AnswerProps) {
  const { suggestions } = followupOf(ask.text);
  return (
    <>
      <p class="ask-words">{visibleText(wordsOf(ask))}</p>
      {suggestions.length > 0 && (
        <ul class="suggestions" aria-label="Suggested answers">
          {suggestions.map(({ answer }, at) => (
            <li key={at}>
              <button type="button" class="suggestion" disabled={sent} onClick={() => void send("message", answer)}>
                <span class="grow">{visibleText(answer)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <ReplyField label="Your answer" send={(text) => send("message", text)} />
    </>
  );
}
