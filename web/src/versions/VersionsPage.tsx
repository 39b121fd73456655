/** Several answers to one prompt side by side, to keep one of them. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { duration, money, tokens } from "../format";
import type { Version } from "../protocol";
import { useAnswer, useRefresh } from "../review/answers";
import { hrefOf } from "../routes";
import { lookOf } from "../states";
import { sessions } from "../store";
import { Badge, Button, Empty, LinkButton } from "../ui";
import { harmless, line } from "../visible";
import { ApplyDialog } from "../worktrees/ApplyDialog";
import { Answer, Sheet } from "../worktrees/Sheet";
import { statsWords } from "../worktrees/worktree-words";
import { RemoveOthersDialog } from "./RemoveOthersDialog";
import { beginning, isAtWork, least, others, whyNotKept } from "./comparison";
import "./versions.css";

const WHILE_WORKING = 5_000;
const WHILE_RESTING = 30_000;

type Keeping = { readonly winner: Version; readonly step: "apply" | "remove" } | null;

export default function VersionsPage({ group_id }: { group_id: string }) {
  const versions = useAnswer("compare_versions", { group_id });
  const [keeping, setKeeping] = useState<Keeping>(null);
  const working = versions.answer?.some(isAtWork) ?? false;
  useRefresh(versions.again, working ? WHILE_WORKING : WHILE_RESTING);
  const states = sessions.value.filter((row) => row.group_id === group_id).map((row) => row.state);
  useEffect(() => {
    if (versions.answer) versions.again();
  }, [states.join()]);

  const applied = (winner: Version) => {
    versions.again();
    const rest = others(versions.answer ?? [], winner);
    setKeeping(rest.length > 0 ? { winner, step: "remove" } : null);
  };

  return (
    <Sheet title="Versions" wide>
      <Answer of={versions} waiting="Comparing…">
        {(answer) =>
          answer.length === 0 ? (
            <Empty icon="columns">
              <p>There are no versions here any more.</p>
            </Empty>
          ) : (
            <Comparison versions={answer} keep={(winner) => setKeeping({ winner, step: "apply" })} />
          )
        }
      </Answer>
      {keeping?.step === "apply" && (
        <ApplyDialog
          worktreeId={keeping.winner.worktree_id}
          name={line(keeping.winner.name)}
          paths={[]}
          close={() => setKeeping(null)}
          applied={() => applied(keeping.winner)}
        />
      )}
      {keeping?.step === "remove" && (
        <RemoveOthersDialog
          versions={others(versions.answer ?? [], keeping.winner)}
          winner={keeping.winner}
          close={() => {
            setKeeping(null);
            versions.again();
          }}
        />
      )}
    </Sheet>
  );
}

interface Measured {
  readonly name: string;
  readonly show: (version: Version) => ComponentChildren;
}

function Comparison({ versions, keep }: { versions: readonly Version[]; keep: (version: Version) => void }) {
  return (
    <div class="versions" tabIndex={0} role="region" aria-label="Comparison of the versions">
      <table>
        <thead>
          <tr>
            <td />
            {versions.map((version) => (
              <th key={version.session_id} scope="col">
                <a href={hrefOf({ page: "session", session_id: version.session_id })}>{line(version.name)}</a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {measures(versions).map(({ name, show }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {versions.map((version) => (
                <td key={version.session_id}>{show(version)}</td>
              ))}
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <td />
            {versions.map((version) => (
              <td key={version.session_id}>
                <Acts version={version} keep={() => keep(version)} />
              </td>
            ))}
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function measures(versions: readonly Version[]): Measured[] {
  const best = { cost: least(versions, "cost"), tokens: least(versions, "tokens"), seconds: least(versions, "seconds") };
  const marked = (measure: keyof typeof best, word: string, show: (version: Version) => string) => (version: Version) => (
    <span class="line-of">
      {show(version)}
      {best[measure].has(version.session_id) && <Badge tone="good">{word}</Badge>}
    </span>
  );
  return [
    { name: "State", show: (version) => <StateBadge version={version} /> },
    { name: "Model", show: (version) => <span class="mono">{line(version.model) || "usual"}</span> },
    { name: "Changes", show: (version) => <Changes version={version} /> },
    { name: "Cost", show: marked("cost", "least", (version) => money(version.cost)) },
    { name: "Tokens", show: marked("tokens", "fewest", (version) => tokens(version.tokens)) },
    { name: "Time", show: marked("seconds", "fastest", (version) => duration(version.seconds * 1000)) },
    { name: "Result", show: (version) => <Result text={version.result} /> },
  ];
}

function StateBadge({ version }: { version: Version }) {
  const look = lookOf(version.state);
  return (
    <Badge tone={look.tone} icon={look.icon}>
      {look.words}
    </Badge>
  );
}

function Changes({ version }: { version: Version }) {
  const { added, removed } = version.stats;
  return (
    <>
      <div>{statsWords(version.stats)}</div>
      <div class="mono small">
        <span class="added-count">+{added}</span> <span class="removed-count">−{removed}</span>
      </div>
    </>
  );
}

function Result({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  const start = beginning(text);
  if (!text.trim()) return <span class="quiet">None yet</span>;
  return (
    <>
      <p class="version-result">{harmless(whole ? text.trim() : start)}</p>
      {start !== text.trim() && (
        <Button compact kind="plain" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? "Less" : "More"}
        </Button>
      )}
    </>
  );
}

function Acts({ version, keep }: { version: Version; keep: () => void }) {
  const why = whyNotKept(version);
  const { session_id } = version;
  return (
    <div class="version-acts">
      <Button kind="primary" icon="check" disabled={why !== null} onClick={keep}>
        Keep this one
      </Button>
      {why && <span class="quiet small">{why}</span>}
      <LinkButton icon="diff" href={hrefOf({ page: "review", session_id })}>
        Review
      </LinkButton>
    </div>
  );
}
