/** The prompt with its images. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { useMentionPicker } from "../session/mention-picker";
import { Button } from "../ui";
import { useAttachedPictures } from "./attached-pictures";
import { useCommandPicker } from "./command-picker";
import { IssueDialog } from "./IssueDialog";

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
  const [issues, setIssues] = useState(false);
  const pictures = useAttachedPictures(images, showPictures);
  const mentionPicker = useMentionPicker("", field, write);
  const commandPicker = useCommandPicker(field, write);
  useEffect(() => field.current!.focus(), []);

  const update = () => {
    mentionPicker.update();
    commandPicker.update();
  };

  return (
    <div class="prompt" {...pictures.onDropped}>
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
        onPaste={pictures.onPaste}
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
        {pictures.shown}
        {pictures.hasRoom && (
          <Button compact kind="plain" icon="image" onClick={pictures.choose}>
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
        {pictures.input}
      </div>
      {children}
    </div>
  );
}
