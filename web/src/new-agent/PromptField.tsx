/** The prompt with its images. */
import { useEffect, useRef } from "preact/hooks";

import { useMentionPicker } from "../session/mention-picker";
import { Button, Icon, toast } from "../ui";
import { MAX_IMAGES } from "./form";
import { ACCEPTED, filesIn, withFiles } from "./pictures";

export function PromptField({
  prompt,
  images,
  write,
  showPictures,
  start,
}: {
  prompt: string;
  images: readonly string[];
  write: (prompt: string) => void;
  showPictures: (images: readonly string[]) => void;
  start: () => void;
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const mentionPicker = useMentionPicker("", field, write);
  useEffect(() => field.current!.focus(), []);

  const take = async (files: readonly File[]) => {
    const added = await withFiles(images, files);
    showPictures(added.images);
    for (const problem of added.problems) toast(problem, "bad");
  };
  const takeFrom = (event: Event, files: File[]) => {
    if (files.length === 0) return;
    event.preventDefault();
    void take(files);
  };

  return (
    <div
      class="prompt"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => takeFrom(event, filesIn(event.dataTransfer))}
    >
      <textarea
        ref={field}
        class="prompt-words"
        rows={7}
        aria-label="Prompt"
        placeholder="What should the agent do? Type @ to mention a file."
        value={prompt}
        {...mentionPicker.attributes}
        onInput={(event) => {
          write(event.currentTarget.value);
          mentionPicker.update();
        }}
        onKeyUp={(event) => event.key.startsWith("Arrow") && mentionPicker.update()}
        onClick={mentionPicker.update}
        onBlur={mentionPicker.stop}
        onPaste={(event) => takeFrom(event, filesIn(event.clipboardData))}
        onKeyDown={(event) => {
          if (event.isComposing || mentionPicker.onKeyDown(event)) return;
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          start();
        }}
      />
      {mentionPicker.list}
      <div class="prompt-foot">
        {images.map((uri, at) => (
          <span key={at} class="prompt-picture">
            <img src={uri} alt={`Image ${at + 1}`} />
            <button
              type="button"
              aria-label={`Remove image ${at + 1}`}
              onClick={() => showPictures(images.filter((_, other) => other !== at))}
            >
              <Icon name="cross" />
            </button>
          </span>
        ))}
        {images.length < MAX_IMAGES && (
          <Button compact kind="plain" icon="image" onClick={() => picker.current?.click()}>
            Add image
          </Button>
        )}
        <input
          ref={picker}
          type="file"
          class="spoken"
          tabIndex={-1}
          aria-hidden="true"
          accept={ACCEPTED}
          multiple
          onChange={(event) => {
            void take([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
      </div>
    </div>
  );
}
