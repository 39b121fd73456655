import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { attempt } from "../attempt";
import { isEditing, useKeys } from "../keys";
import { MAX_IMAGES } from "../new-agent/form";
import { ACCEPTED, filesIn, withFiles } from "../new-agent/pictures";
import type { SessionRow } from "../protocol";
import { Button, Icon, toast } from "../ui";
import { useReclaimFocus } from "./composer-focus";
import { draftOf, saveDraft } from "./drafts";
import { useMentionPicker } from "./mention-picker";
import "./composer.css";

const MAX_HEIGHT = 240;

/** The message field of a session. Unsent text is stored, even when the user leaves the page. */
export function Composer({ row, ask_ts }: { row: SessionRow; ask_ts: number | null }) {
  const { session_id } = row;
  const words = useSignal(draftOf(session_id));
  const images = useSignal<readonly string[]>([]);
  const busy = useSignal(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const mentionPicker = useMentionPicker(session_id, field, (text) => write(text));
  const enabled = row.flags.input_enabled || row.flags.can_queue_text || row.flags.can_guide_text;
  const sendable = enabled && !busy.value && (words.value.trim() !== "" || images.value.length > 0);

  const write = (text: string) => {
    words.value = text;
    saveDraft(session_id, text);
  };

  const send = async () => {
    if (!sendable) return;
    busy.value = true;
    const written = words.value;
    const message = { session_id, text: written.trim(), images: [...images.value], ask_ts };
    const sent = await attempt("send_words", message);
    busy.value = false;
    if (!sent) return;
    write(withoutSent(words.value, written));
    images.value = images.value.filter((each) => !message.images.includes(each));
    mentionPicker.stop();
    field.current?.focus();
  };

  const take = async (event: Event | null, files: readonly File[]) => {
    if (!files.length) return;
    event?.preventDefault();
    const added = await withFiles(images.value, files);
    images.value = added.images;
    for (const problem of added.problems) toast(problem, "bad");
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || mentionPicker.onKeyDown(event)) return;
    if (event.key === "Escape") field.current?.blur();
    // on touch screens Enter inserts a line break; there is a button to send
    if (event.key !== "Enter" || event.shiftKey || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    if (!event.repeat) void send(); // Enter may still be held from a button
  };

  useAutoHeight(field, words.value);
  useFocusWhenAsked(field, row.state);
  useReclaimFocus();
  useKeys({ i: () => field.current?.focus() });

  return (
    <div
      class="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => void take(event, filesIn(event.dataTransfer))}
    >
      {mentionPicker.list}
      {images.value.length > 0 && (
        <div class="composer-pictures">
          {images.value.map((uri, at) => (
            <span key={at} class="composer-picture">
              <img src={uri} alt={`Image ${at + 1}`} />
              <button
                type="button"
                aria-label={`Remove image ${at + 1}`}
                onClick={() => (images.value = images.value.filter((_, other) => other !== at))}
              >
                <Icon name="cross" />
              </button>
            </span>
          ))}
        </div>
      )}
      <div class="composer-line">
        <textarea
          ref={field}
          class="composer-words"
          rows={1}
          aria-label="Message"
          placeholder={placeholderFor(row)}
          disabled={!enabled}
          value={words.value}
          {...mentionPicker.attributes}
          onInput={(event) => {
            write(event.currentTarget.value);
            mentionPicker.update();
          }}
          onKeyUp={(event) => event.key.startsWith("Arrow") && mentionPicker.update()}
          onClick={mentionPicker.update}
          onBlur={mentionPicker.stop}
          onPaste={(event) => void take(event, filesIn(event.clipboardData))}
          onKeyDown={onKeyDown}
        />
        {enabled && images.value.length < MAX_IMAGES && (
          <Button kind="plain" icon="image" label="Add images" onClick={() => picker.current?.click()} />
        )}
        <Button kind="primary" icon="send" label="Send" busy={busy.value} disabled={!sendable} onClick={() => void send()} />
        <input
          ref={picker}
          type="file"
          class="spoken"
          tabIndex={-1}
          aria-hidden="true"
          accept={ACCEPTED}
          multiple
          onChange={(event) => {
            void take(null, [...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
      </div>
    </div>
  );
}

/** The text typed while the previous message was being sent. */
export function withoutSent(words: string, sent: string): string {
  return words.startsWith(sent) ? words.slice(sent.length) : words;
}

/** The placeholder of the empty field. */
export function placeholderFor({ state, flags }: Pick<SessionRow, "state" | "flags">): string {
  switch (state) {
    case "creating":
      return "Type a message; it is delivered when the session starts";
    case "streaming":
      return "Type a message; the agent reads it at its next step";
    case "waiting_approval":
      return "Reject, and say what to do instead";
    case "waiting_input":
      return "Type your answer";
    case "completed":
      return "What next?";
    case "error":
      if (flags.can_guide_text) return "Hint for the agent";
      return flags.show_resume_button ? "The session failed; resume it first" : "The session failed; retry it first";
    case "paused":
    case "stopped":
      return "Say how to continue, or resume";
    case "idle":
      return "";
  }
}

function useAutoHeight(field: { current: HTMLTextAreaElement | null }, words: string): void {
  useLayoutEffect(() => {
    const area = field.current!;
    area.style.height = "auto";
    area.style.height = `${Math.min(MAX_HEIGHT, area.scrollHeight)}px`;
  }, [words]);
}

/** Focuses the field when the agent asks a question, unless the user is typing elsewhere. */
function useFocusWhenAsked(field: { current: HTMLTextAreaElement | null }, state: SessionRow["state"]): void {
  const before = useRef(state);
  useEffect(() => {
    const asks = state === "waiting_input" && before.current !== state;
    before.current = state;
    if (asks && document.activeElement === document.body && !isEditing()) field.current?.focus();
  }, [state]);
}
