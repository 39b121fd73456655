import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { attempt } from "../attempt";
import { counted } from "../format";
import type { UndeliveredRow, SessionRow } from "../protocol";
import { Badge, Button, Icon, toast } from "../ui";
import type { Parts } from "../view";
import { visibleText } from "../visible-text";

type Queued = NonNullable<Parts["queue"]>[number];

/** Messages that the model has not read: not delivered yet, or queued for its next request. */
export function QueuedMessages({ row, queue }: { row: SessionRow; queue: readonly Queued[] }) {
  const undelivered = row.undelivered.filter((message) => message.state !== "sent");
  if (!undelivered.length && !queue.length) return null;
  return (
    <ul class="waiting" aria-label="Queued messages">
      {queue.map((queued) => (
        <QueuedMessage key={queued.message_id} session_id={row.session_id} queued={queued} />
      ))}
      {undelivered.map((message) => (
        <UndeliveredMessage key={message.number} session_id={row.session_id} message={message} />
      ))}
    </ul>
  );
}

function QueuedMessage({ session_id, queued }: { session_id: string; queued: Queued }) {
  const editing = useSignal<string | null>(null);
  const { message_id } = queued;
  const busy = useSignal(false);
  const save = async () => {
    const text = editing.value?.trim();
    if (!text || busy.value) return;
    busy.value = true;
    if (await attempt("edit_queued", { session_id, message_id, text })) editing.value = null;
    busy.value = false;
  };
  useEffect(
    () => () => {
      const written = editing.peek();
      if (written === null || written === queued.text || busy.peek()) return;
      toast("The agent read the message before your edit was saved.", "bad");
    },
    [],
  );
  if (editing.value !== null) {
    return (
      <li class="waiting-item" data-editing>
        <EditField
          words={editing.value}
          write={(words) => (editing.value = words)}
          save={() => void save()}
          leave={() => (editing.value = null)}
        />
        <Button compact kind="primary" busy={busy.value} onClick={() => void save()}>
          Save
        </Button>
        <Button compact onClick={() => (editing.value = null)}>
          Cancel
        </Button>
      </li>
    );
  }
  return (
    <li class="waiting-item">
      <Badge icon="clock">Queued</Badge>
      <span class="grow cut">
        {visibleText(queued.text)} {queued.images.length > 0 && <i>{counted(queued.images.length, "image")}</i>}
      </span>
      <Button compact kind="plain" icon="pencil" label="Edit" onClick={() => (editing.value = queued.text)} />
      <Button
        compact
        kind="plain"
        icon="cross"
        label="Delete"
        onClick={() => void attempt("edit_queued", { session_id, message_id, text: null })}
      />
    </li>
  );
}

function EditField(props: { words: string; write: (words: string) => void; save: () => void; leave: () => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    field.current!.focus();
    field.current!.setSelectionRange(props.words.length, props.words.length);
  }, []);
  return (
    <textarea
      ref={field}
      class="input"
      rows={2}
      aria-label="Queued message"
      value={props.words}
      onInput={(event) => props.write(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Escape") props.leave();
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        props.save();
      }}
    />
  );
}

function UndeliveredMessage({ session_id, message }: { session_id: string; message: UndeliveredRow }) {
  const { number } = message;
  const failed = message.state === "failed";
  return (
    <li class={`waiting-item ${message.state}`}>
      <Badge icon={failed ? "alert" : "mail"} tone={failed ? "bad" : "usual"}>
        {{ queued: "Waiting to be sent", sending: "Sending", sent: "Sent", failed: "Not delivered" }[message.state]}
      </Badge>
      <span class="grow">
        <span class="cut waiting-words">{visibleText(message.text)}</span>
        {message.problem && <span class="small waiting-problem">{visibleText(message.problem)}</span>}
      </span>
      {failed && (
        <Button compact icon="retry" onClick={() => void attempt("retry_message", { session_id, number })}>
          Retry
        </Button>
      )}
      {message.state !== "sending" && (
        <Button
          compact
          kind="plain"
          icon="trash"
          label="Discard"
          onClick={() => void attempt("discard_message", { session_id, number })}
        />
      )}
      {!failed && <Icon name="clock" />}
    </li>
  );
}
