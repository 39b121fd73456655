import { useRef } from "preact/hooks";
import { Icon, toast } from "../ui";
import { MAX_IMAGES } from "./form";
import { ACCEPTED, filesIn, withFiles } from "./pictures";
import "./attached-pictures.css";

/** The images of a message: dropped, pasted or chosen, and each can be removed. */
export function useAttachedPictures(images: readonly string[], show: (images: readonly string[]) => void) {
  const input = useRef<HTMLInputElement>(null);
  const take = async (event: Event | null, files: readonly File[]) => {
    if (!files.length) return;
    event?.preventDefault();
    const added = await withFiles(images, files);
    show(added.images);
    for (const problem of added.problems) toast(problem, "bad");
  };
  return {
    hasRoom: images.length < MAX_IMAGES,
    choose: () => input.current?.click(),
    onPaste: (event: ClipboardEvent) => void take(event, filesIn(event.clipboardData)),
    /** For the element on which files are dropped. */
    onDropped: {
      onDragOver: (event: DragEvent) => event.preventDefault(),
      onDrop: (event: DragEvent) => void take(event, filesIn(event.dataTransfer)),
    },
    shown: images.map((uri, at) => (
      <span key={at} class="attached-picture">
        <img src={uri} alt={`Image ${at + 1}`} />
        <button
          type="button"
          aria-label={`Remove image ${at + 1}`}
          onClick={() => show(images.filter((_, other) => other !== at))}
        >
          <Icon name="cross" />
        </button>
      </span>
    )),
    /** The hidden input behind the button. */
    input: (
      <input
        ref={input}
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
    ),
  };
}
