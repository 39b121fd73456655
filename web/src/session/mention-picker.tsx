import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../connection";
import type { FoundPath } from "../protocol";
import { Icon } from "../ui";
import { visibleLine } from "../visible-text";
import { useCompletion } from "./completion";
import { type Mention, mentionAt, withPath } from "./mentions";

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
  const letters = mention.value?.letters;

  useEffect(() => {
    if (letters === undefined) return;
    let active = true;
    request("find_paths", { letters, session_id, most: PATHS }).then(
      (found) => active && (paths.value = found),
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
  const completion = useCompletion({
    field,
    write,
    label: "Files",
    options: mention.value ? paths.value : [],
    nameOf: (found) => found.path,
    draw: (found) => (
      <>
        <Icon name={found.folder ? "folder" : "file"} />
        <span class="cut">{visibleLine(found.path)}</span>
      </>
    ),
    completed: (text, found) => withPath(text, mention.value!, found.path, found.folder),
    stop,
  });
  return { update, stop, ...completion };
}
