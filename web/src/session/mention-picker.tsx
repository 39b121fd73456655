import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { request } from "../connection";
import type { FoundPath } from "../protocol";
import { type Mention, mentionAt, withPath } from "./mentions";
import { MentionList } from "./MentionList";

const PATHS = 8;

/**
 * Completes file mentions while typing: files of the session, or of the project if `session_id` is
 * empty.
 */
export function useMentionPicker(
  session_id: string,
  field: { current: HTMLTextAreaElement | null },
  write: (text: string) => void,
) {
  const mention = useSignal<Mention | null>(null);
  const paths = useSignal<readonly FoundPath[]>([]);
  const at = useSignal(0);
  const id = useId();
  const letters = mention.value?.letters;

  useEffect(() => {
    if (letters === undefined) return;
    let active = true;
    request("find_paths", { letters, session_id, most: PATHS }).then(
      (found) => {
        if (!active) return;
        paths.value = found;
        at.value = 0;
      },
      () => active && (paths.value = []),
    );
    return () => {
      active = false;
    };
  }, [letters]);

  const stop = () => {
    mention.value = null;
    paths.value = [];
  };
  const update = () => {
    const area = field.current!;
    mention.value = mentionAt(area.value, area.selectionStart);
    if (!mention.value) stop();
  };
  const choose = (found: FoundPath) => {
    const area = field.current!;
    const { text, caret } = withPath(area.value, mention.value!, found.path, found.folder);
    // at once: a key that is pressed before the page is drawn again comes after it
    area.value = text;
    area.setSelectionRange(caret, caret);
    write(text);
    stop();
  };
  const open = mention.value !== null && paths.value.length > 0;
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (!open) return false;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    if (step) at.value = (at.value + step + paths.value.length) % paths.value.length;
    else if (event.key === "Escape") stop();
    else if (event.key === "Enter" || event.key === "Tab") choose(paths.value[at.value]!);
    else return false;
    event.preventDefault();
    return true;
  };
  return {
    update,
    stop,
    onKeyDown,
    list: open && <MentionList id={id} paths={paths.value} at={at.value} choose={choose} />,
    attributes: open
      ? ({ "aria-controls": id, "aria-activedescendant": `${id}-${at.value}`, "aria-autocomplete": "list" } as const)
      : {},
  };
}
