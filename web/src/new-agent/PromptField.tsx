/** The prompt with its images. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { useMentionPicker } from "../session/mention-picker";
import { Button, Icon, toast } from "../ui";
import { useCommandPicker } from "./command-picker";
import { MAX_IMAGES } from "./form";
import { IssueDialog } from "./IssueDialog";
import { ACCEPTED, filesIn, withFiles } from "./pictures";

export function PromptField({
  prompt,
  images,
  write,
  showPictures,
  start,
  children,
}: {
  prompt: string;
  images: readonly string[];
  write: (prompt: string) => void;
  showPictures: (images: readonly string[]) => void;
  start: () => void;
  /** Options and the button, at the foot. */
  children: ComponentChildren;
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [issues, setIssues] = useState(false);
  const mentionPicker = useMentionPicker("", field, write);
  const commandPicker = useCommandPicker(field, write);
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

  const update = () => {
    mentionPicker.update();
    commandPicker.update();
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
        rows={5}
        aria-label="Prompt"
        placeholder="What should the agent do? Type @ for a file, / for a command."
        value={prompt}
        {...mentionPicker.attributes}
        {...commandPicker.attributes}
        onInput={(event) => {
          write(event.currentTarget.value);
          update();
        }}
        onKeyUp={(event) => /^Arrow(Left|Right)$/.test(event.key) && update()}
        onClick={update}
        onBlur={() => {
          mentionPicker.stop();
          commandPicker.stop();
        }}
        onPaste={(event) => takeFrom(event, filesIn(event.clipboardData))}
        onKeyDown={(event) => {
          if (event.isComposing || mentionPicker.onKeyDown(event) || commandPicker.onKeyDown(event)) return;
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          start();
        }}
      />
      {mentionPicker.list}
      {commandPicker.list}
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
        <Button compact kind="plain" icon="terminal" onClick={commandPicker.open}>
          Command
        </Button>
        <Button compact kind="plain" icon="list" onClick={() => setIssues(true)}>
          Issue
        </Button>
        {issues && (
          <IssueDialog
            close={() => setIssues(false)}
            take={(words) => {
              write(words);
              setIssues(false);
            }}
          />
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
      {children}
    </div>
  );
}
