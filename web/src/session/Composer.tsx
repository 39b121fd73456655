import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { attempt } from "../attempt";
import { isEditing, useKeys } from "../keys";
import { useAttachedPictures } from "../new-agent/attached-pictures";
import type { SessionRow } from "../protocol";
import { Button } from "../ui";
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
  const pictures = useAttachedPictures(images.value, (some) => (images.value = some));
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
    <div class="composer" {...pictures.onDropped}>
      {mentionPicker.list}
      {images.value.length > 0 && <div class="composer-pictures">{pictures.shown}</div>}
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
          onPaste={pictures.onPaste}
          onKeyDown={onKeyDown}
        />
        {enabled && pictures.hasRoom && (
          <Button kind="plain" icon="image" label="Add images" onClick={pictures.choose} />
        )}
        <Button kind="primary" icon="send" label="Send" busy={busy.value} disabled={!sendable} onClick={() => void send()} />
        {pictures.input}
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
