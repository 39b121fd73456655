/** The pull request of a worktree's branch, as the user's `gh` or `glab` reports it. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { PullRequestRow } from "../protocol";
import { useAction, useRefresh, useRequest } from "../requests";
import { Badge, Button, Field, Icon, toast, toastError } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { visibleLine } from "../visible-text";
import { toastDone } from "./worktree-actions";
import { checksWords } from "./worktree-words";

const TONES = { none: "usual", open: "good", draft: "usual", merged: "rest", closed: "bad" } as const;

/** Nothing if there is none, or if it cannot be known: "Create pull request" then says why. */
export function PullRequestLine({ worktreeId, talks }: { worktreeId: string; talks: boolean }) {
  const found = useRequest("read_pull_request", { worktree_id: worktreeId });
  const action = useAction(toastError);
  useRefresh(found.reload);
  if (!found.answer?.number) return null;
  const bring = () =>
    action.run(async () => toastDone(await request("bring_review_comments", { worktree_id: worktreeId }), "Sent."));
  return (
    <div class="line-of small" role="group" aria-label="Pull request">
      <PullRequestFacts row={found.answer} />
      {talks && (
        <Button compact kind="plain" icon="mail" busy={action.busy} onClick={bring}>
          Send review comments to agent
        </Button>
      )}
    </div>
  );
}

function PullRequestFacts({ row }: { row: PullRequestRow }) {
  const { failed, pending } = row.checks;
  const name = `#${row.number} ${visibleLine(row.title)}`;
  return (
    <>
      <Badge tone={TONES[row.state]} icon="branch">
        {row.state}
      </Badge>
      {row.url ? (
        <a href={row.url} target="_blank" rel="noopener noreferrer">
          {name}
        </a>
      ) : (
        <span>{name}</span>
      )}
      {checksWords(row.checks) && (
        <span class={`pull-checks ${failed ? "removed-count" : "quiet"}`}>
          <Icon name={failed ? "cross" : pending ? "clock" : "check"} /> {checksWords(row.checks)}
        </span>
      )}
      {row.review && <span class="quiet">{visibleLine(row.review)}</span>}
    </>
  );
}

export function PullRequestDialog({
  worktreeId,
  name,
  close,
  created,
}: {
  worktreeId: string;
  name: string;
  close: () => void;
  created: () => void;
}) {
  const [title, setTitle] = useState(name);
  const [body, setBody] = useState("");
  const [draft, setDraft] = useState(false);
  const create = async () => {
    const made = await request("create_pull_request", { worktree_id: worktreeId, title, body, draft });
    toast(`Opened pull request #${made.number}.`, "good");
    created();
  };
  return (
    <ActionDialog
      title="Create pull request"
      close={close}
      words="Create pull request"
      disabled={!title.trim()}
      act={create}
    >
      <p class="quiet">
        The branch is pushed, and the pull request opened, with your own <code>gh</code> or <code>glab</code>. Only
        committed changes are included.
      </p>
      <Field label="Title">
        <input class="input" value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
      </Field>
      <Field label="Description">
        <textarea class="input" rows={5} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
      </Field>
      <label class="checked">
        <input type="checkbox" checked={draft} onChange={(event) => setDraft(event.currentTarget.checked)} />
        <span>As a draft</span>
      </label>
    </ActionDialog>
  );
}
