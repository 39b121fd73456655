/** A comment on a line: being edited, or saved but not sent. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Badge, Button } from "../ui";
import { type Draft, keyOf, wordsFor } from "./comments";
import type { CommentEditor } from "./comment-editor";

/** Milliseconds without typing before the text is saved. */
const DEBOUNCE = 400;

export function CommentBox({ draft, editor }: { draft: Draft; editor: CommentEditor }) {
  return editor.open === keyOf(draft) ? (
    <CommentForm draft={draft} editor={editor} />
  ) : (
    <SavedComment draft={draft} editor={editor} />
  );
}

function CommentForm({ draft, editor }: { draft: Draft; editor: CommentEditor }) {
  const [text, setText] = useState(draft.text);
  const field = useRef<HTMLTextAreaElement>(null);
  const unsaved = useRef<string | null>(null);
  const change = useRef(editor.change);
  change.current = editor.change;

  const saveNow = () => {
    if (unsaved.current === null) return;
    change.current({ ...draft, text: unsaved.current });
    unsaved.current = null;
  };
  useLayoutEffect(() => {
    // a comment that scrolls back into view must not steal the focus from another field
    if (!document.activeElement?.matches("input, textarea, select")) field.current!.focus();
    return saveNow;
  }, []);
  useEffect(() => {
    const timer = setTimeout(saveNow, DEBOUNCE);
    return () => clearTimeout(timer);
  }, [text]);

  const done = () => {
    saveNow();
    editor.close();
  };
  const type = (words: string) => {
    unsaved.current = words;
    setText(words);
  };
  const drop = () => {
    unsaved.current = null;
    editor.drop(draft);
  };

  return (
    <div class="comment" data-editing>
      <textarea
        ref={field}
        class="input"
        rows={3}
        aria-label={`Comment on ${wordsFor(draft)}`}
        placeholder="What should change here?"
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onBlur={saveNow}
        onKeyDown={(event) => {
          const send = event.key === "Enter" && (event.ctrlKey || event.metaKey);
          if (!send && event.key !== "Escape") return;
          event.preventDefault();
          event.stopPropagation();
          done();
        }}
      />
      <div class="comment-foot">
        <span class="quiet small grow">Not sent until you send all comments.</span>
        <Button compact kind="plain" onClick={drop}>
          Delete
        </Button>
        <Button compact kind="primary" disabled={text.trim() === ""} onClick={done}>
          Add comment
        </Button>
      </div>
    </div>
  );
}

function SavedComment({ draft, editor }: { draft: Draft; editor: CommentEditor }) {
  return (
    <div class="comment">
      <div class="comment-foot">
        <Badge tone="careful">Not sent</Badge>
        <span class="quiet small grow">{draft.old ? `Removed line ${draft.line}` : `Line ${draft.line}`}</span>
        <Button compact kind="plain" icon="pencil" label="Edit comment" onClick={() => editor.write(draft)} />
        <Button compact kind="plain" icon="trash" label="Delete comment" onClick={() => editor.drop(draft)} />
      </div>
      <p class="comment-text">{draft.text}</p>
    </div>
  );
}
