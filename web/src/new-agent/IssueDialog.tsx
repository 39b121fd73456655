/** Open issues of the repository; a click makes one the prompt. */
import { useState } from "preact/hooks";

import type { IssueRow } from "../protocol";
import { useRequest } from "../requests";
import { Dialog, Empty } from "../ui";
import { Loaded } from "../ui/PageFrame";
import { visibleLine } from "../visible-text";
import { issuePrompt, issuesFor } from "./issues";

export function IssueDialog({ take, close }: { take: (prompt: string) => void; close: () => void }) {
  const issues = useRequest("list_issues", {});
  const [words, setWords] = useState("");
  return (
    <Dialog title="Start from an issue" close={close}>
      <input
        class="input"
        type="search"
        placeholder="Search issues"
        aria-label="Search issues"
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault(); // the form around it is the new session
          const [first] = issuesFor(issues.answer ?? [], words);
          if (first) take(issuePrompt(first));
        }}
      />
      <Loaded of={issues} waiting="Loading issues">
        {(found) => <Issues found={issuesFor(found, words)} take={take} />}
      </Loaded>
    </Dialog>
  );
}

function Issues({ found, take }: { found: readonly IssueRow[]; take: (prompt: string) => void }) {
  if (!found.length) return <Empty icon="search">No open issues.</Empty>;
  return (
    <ul class="issues">
      {found.map((issue) => (
        <li key={issue.number}>
          <button type="button" class="suggestion" onClick={() => take(issuePrompt(issue))}>
            <span class="quiet">#{issue.number}</span> <span class="grow">{visibleLine(issue.title)}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
