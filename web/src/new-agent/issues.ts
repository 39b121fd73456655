/** Issues as prompts. The user sees the whole text before it is sent. */
import type { IssueRow } from "../protocol";

const LONGEST_BODY = 8_000;

export function issuePrompt({ number, title, body, url }: IssueRow): string {
  const text = body.length > LONGEST_BODY ? `${body.slice(0, LONGEST_BODY)}…` : body;
  return [`Resolve issue #${number}: ${title}`, text.trim(), url].filter(Boolean).join("\n\n");
}

export function issuesFor(issues: readonly IssueRow[], words: string): IssueRow[] {
  const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
  return issues.filter((issue) => {
    const text = `#${issue.number} ${issue.title}`.toLowerCase();
    return terms.every((term) => text.includes(term));
  });
}
