/** The unsent comments. They are sent to the agent as one message. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import { counted } from "../format";
import { hrefOf } from "../routes";
import { Button, Icon, LinkButton, Problem, confirm, toast } from "../ui";
import { visibleLine } from "../visible-text";
import { useAction } from "../requests";
import type { CommentEditor } from "./comment-editor";
import { commentsOf, keyOf, wordsFor } from "./comments";

export function CommentsBar({
  sessionId,
  editor,
  go,
}: {
  sessionId: string;
  editor: CommentEditor;
  go: (path: string) => void;
}) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [sent, setSent] = useState(0);
  const action = useAction(setProblem);
  const { drafts } = editor;
  if (drafts.length === 0) return sent > 0 ? <Sent count={sent} sessionId={sessionId} /> : null;

  const send = () =>
    action.run(async () => {
      setProblem("");
      await request("send_comments", { session_id: sessionId, comments: commentsOf(drafts), text: text.trim() });
      toast(`Sent ${counted(drafts.length, "comment")} to the agent.`, "good");
      setSent(drafts.length);
      setText("");
      editor.clear();
    });
  const dropAll = async () => {
    const sure = await confirm({
      title: "Delete all comments?",
      words: `${counted(drafts.length, "unsent comment")} will be deleted.`,
      yes: "Delete",
      danger: true,
    });
    if (sure) editor.clear();
  };

  return (
    <section class="comments-bar" aria-label="Unsent comments">
      {open && (
        <div class="comments-open">
          <ul class="comments-list">
            {drafts.map((draft) => (
              <li key={keyOf(draft)}>
                <button type="button" class="comment-link" onClick={() => go(draft.path)}>
                  {visibleLine(wordsFor(draft))}
                </button>
                <p class="comment-text">{draft.text}</p>
              </li>
            ))}
          </ul>
          <textarea
            class="input"
            rows={2}
            aria-label="Message with the comments"
            placeholder="Message with the comments (optional)"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </div>
      )}
      <Problem words={problem && `${problem} Your comments are kept.`} />
      <div class="line-of">
        <Button kind="plain" icon={open ? "down" : "up"} aria-expanded={open} onClick={() => setOpen(!open)}>
          {counted(drafts.length, "unsent comment")}
        </Button>
        <span class="grow" />
        {open && (
          <Button kind="plain" onClick={dropAll}>
            Delete all
          </Button>
        )}
        <Button kind="primary" icon="send" busy={action.busy} onClick={send}>
          Send to agent
        </Button>
      </div>
    </section>
  );
}

/** Confirms that the comments were sent. */
function Sent({ count, sessionId }: { count: number; sessionId: string }) {
  return (
    <section class="comments-bar" aria-label="Sent comments">
      <div class="line-of">
        <Icon name="check" />
        <span class="grow">{counted(count, "comment")} sent to the agent.</span>
        <LinkButton compact href={hrefOf({ page: "session", session_id: sessionId })}>
          View conversation
        </LinkButton>
      </div>
    </section>
  );
}
