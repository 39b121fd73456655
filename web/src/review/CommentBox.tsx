/** A comment on a line: being edited, or saved but not sent. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Badge, Button } from "../ui";
import { type Draft, keyOf, wordsFor } from "./comments";
import type { Commenting } from "./comment-editor";

/** Milliseconds without typing before the text is saved. */
const REST = 400;

export function CommentBox({ draft, commenting }: { draft: Draft; commenting: Commenting }) {
  return commenting.open === keyOf(draft) ? (
    <Writing draft={draft} commenting={commenting} />
  ) : (
    <Waiting draft={draft} commenting={commenting} />
  );
}

function Writing({ draft, commenting }: { draft: Draft; commenting: Commenting }) {
  const [text, setText] = useState(draft.text);
  const field = useRef<HTMLTextAreaElement>(null);
  const unkept = useRef<string | null>(null);
  const change = useRef(commenting.change);
  change.current = commenting.change;

  const keepNow = () => {
    if (unkept.current === null) return;
    change.current({ ...draft, text: unkept.current });
    unkept.current = null;
  };
  useLayoutEffect(() => {
    // a comment that scrolls back into view must not steal the focus from another field
    if (!document.activeElement?.matches("input, textarea, select")) field.current!.focus();
    return keepNow;
  }, []);
  useEffect(() => {
    const timer = setTimeout(keepNow, REST);
    return () => clearTimeout(timer);
  }, [text]);

  const done = () => {
    keepNow();
    commenting.close();
  };
  const type = (words: string) => {
    unkept.current = words;
    setText(words);
  };
  const drop = () => {
    unkept.current = null;
    commenting.drop(draft);
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
        onBlur={keepNow}
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

function Waiting({ draft, commenting }: { draft: Draft; commenting: Commenting }) {
  return (
    <div class="comment">
      <div class="comment-foot">
        <Badge tone="careful">Not sent</Badge>
        <span class="quiet small grow">{draft.old ? `Removed line ${draft.line}` : `Line ${draft.line}`}</span>
        <Button compact kind="plain" icon="pencil" label="Edit comment" onClick={() => commenting.write(draft)} />
        <Button compact kind="plain" icon="trash" label="Delete comment" onClick={() => commenting.drop(draft)} />
      </div>
      <p class="comment-text">{draft.text}</p>
    </div>
  );
}
