import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Button, Icon, Key } from "../ui";
import { commandText, visibleLine } from "../visible-text";
import { AskBody } from "./AskBody";
import { AskHead } from "./AskHead";
import { approve, reject } from "./ask-actions";
import type { Keys } from "../keys";
import { type Ask, isAlwaysAsked, otherNotes } from "./ask";
import { useSendAnswer, useAnswerKeys, useReadToEnd, useSeenLongEnough } from "./ask-hooks";

type Wider = "always" | "task" | "expand";

/** Asks the user to approve or reject an action. */
export function Approval({ ask, keys }: { ask: Ask; keys: boolean }) {
  const seen = useSeenLongEnough(ask.partial);
  const read = useReadToEnd();
  const { busy, answer } = useSendAnswer();
  const rejecting = useSignal(false);
  const wider = useSignal<Wider | null>(null);
  const ready = seen && read.whole && !busy;
  const choices = ask.governance?.choices ?? [];
  const armed = useSignal(false);
  const yes = () => ready && answer(() => approve(ask));
  const no = (reason: string) => answer(() => reject(ask, reason));

  const byKey: Keys = !isAlwaysAsked(ask) ? { a: yes } : armed.value ? { y: yes } : { a: () => ready && (armed.value = true) };
  useAnswerKeys(keys, { ...byKey, r: () => (rejecting.value = true) });

  return (
    <>
      <AskHead ask={ask} icon={ask.governance ? "flag" : "hand"} />
      <div class="ask-scroll" ref={read.box} onScroll={read.onScroll} tabIndex={0} role="group" aria-label="Requested action">
        <AskBody ask={ask} />
      </div>
      {otherNotes(ask).map((note) => (
        <p key={note} class="ask-note">
          <Icon name="alert" /> {visibleLine(note)}
        </p>
      ))}
      {wider.value ? (
        <WiderApproval
          ask={ask}
          wider={wider.value}
          ready={ready}
          back={() => (wider.value = null)}
          yes={(how) => answer(() => approve(ask, how))}
        />
      ) : rejecting.value ? (
        <Reason ask={ask} busy={busy} send={no} back={() => (rejecting.value = false)} />
      ) : (
        <div class="ask-buttons">
          <Button kind="primary" icon="check" disabled={!ready} onClick={yes}>
            {ask.governance ? "Allow once" : "Approve"} {keys && <Key>{armed.value ? "y" : isAlwaysAsked(ask) ? "a y" : "a"}</Key>}
          </Button>
          <span role="status" class="ask-second-key">
            {armed.value && "This always asks. Press y to approve it."}
          </span>
          {choices.includes("task") && (
            <Button disabled={!ready} onClick={() => (wider.value = "task")}>
              For this task…
            </Button>
          )}
          {choices.includes("expand") && (
            <Button disabled={!ready} onClick={() => (wider.value = "expand")}>
              Add to scope…
            </Button>
          )}
          {ask.rule && (
            <Button disabled={!ready} onClick={() => (wider.value = "always")}>
              Always allow…
            </Button>
          )}
          <span class="grow" />
          {!read.whole && (
            <Button kind="plain" icon="arrowDown" onClick={read.toEnd}>
              Scroll to the end first
            </Button>
          )}
          <Button kind="danger" icon="cross" disabled={busy} onClick={() => (rejecting.value = true)}>
            Reject {keys && <Key>r</Key>}
          </Button>
          {choices.includes("halt") && (
            <Button kind="danger" icon="stop" disabled={busy} onClick={() => answer(() => reject(ask, "", "halt"))}>
              Reject and stop
            </Button>
          )}
        </div>
      )}
    </>
  );
}

/** Approves more than this one action. Shows what would be allowed and asks for a second click. */
function WiderApproval(props: {
  ask: Ask;
  wider: Wider;
  ready: boolean;
  back: () => void;
  yes: (how: { always?: boolean; choice?: "task" | "expand" }) => void;
}) {
  const { ask, wider, ready, back, yes } = props;
  const question = ask.governance;
  const shown = {
    always: { words: "Actions that match this rule will no longer ask:", what: ask.rule, do: "Save rule and allow" },
    task: {
      words: "For the rest of this task, this counts as in scope:",
      what: question?.grant ?? "",
      do: "Allow for this task",
    },
    expand: {
      words: `This will be added to the scope of ${question?.intent_id ?? "the intent"}:`,
      what: question?.pattern ?? "",
      do: "Add to scope and allow",
    },
  }[wider];
  const how = wider === "always" ? { always: true } : { choice: wider };
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => box.current?.focus(), []);
  return (
    <div
      class="ask-wider"
      ref={box}
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key === "Escape") back();
      }}
    >
      <p>{shown.words}</p>
      <pre class="ask-rule">{commandText(shown.what)}</pre>
      <div class="ask-buttons">
        <Button kind="primary" icon="check" disabled={!ready} onClick={() => yes(how)}>
          {shown.do}
        </Button>
        <Button onClick={back}>Back</Button>
      </div>
    </div>
  );
}

function Reason(props: { ask: Ask; busy: boolean; send: (reason: string) => void; back: () => void }) {
  const words = useSignal("");
  const field = useRef<HTMLTextAreaElement>(null);
  // before the next key, which would otherwise trigger a shortcut
  useLayoutEffect(() => field.current?.focus(), []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") props.back();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!event.repeat) props.send(words.value.trim());
  };
  return (
    <div class="ask-reason" data-editing>
      <textarea
        ref={field}
        class="input"
        rows={2}
        aria-label="Reason for rejecting"
        placeholder="Why not, and what to do instead (optional)"
        value={words.value}
        onInput={(event) => (words.value = event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="ask-buttons">
        <Button kind="danger" icon="cross" busy={props.busy} onClick={() => props.send(words.value.trim())}>
          Reject
        </Button>
        <Button onClick={props.back}>Back</Button>
      </div>
    </div>
  );
}
