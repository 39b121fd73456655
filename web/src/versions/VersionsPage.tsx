/** Compares the versions of one prompt, so that the user can keep one. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { request } from "../connection";
import { duration, money, tokens } from "../format";
import { PHONE, useMedia } from "../media";
import type { Version } from "../protocol";
import { useRequest, useRefresh } from "../requests";
import { Counts } from "../review/Counts";
import { hrefOf } from "../routes";
import { appearanceOf } from "../states";
import { versions as numbers, sessions } from "../store";
import { Badge, Button, toastError, Empty, LinkButton } from "../ui";
import { visibleLine, visibleText } from "../visible-text";
import { ApplyDialog } from "../worktrees/ApplyDialog";
import { Loaded, PageFrame } from "../ui/PageFrame";
import { statsWords } from "../worktrees/worktree-words";
import { FileVersions } from "./FileVersions";
import { RemoveOthersDialog } from "./RemoveOthersDialog";
import {
  beginning,
  type FilesByVersion,
  isWorking,
  keepVersion,
  keptVersion,
  lowest,
  otherVersions,
  whyNotKept,
  withoutMarkdown,
} from "./comparison";
import "./versions.css";

const WHILE_WORKING = 5_000;
const WHILE_RESTING = 30_000;

type Keeping = { readonly winner: Version; readonly step: "apply" | "remove" } | null;

export default function VersionsPage({ group_id }: { group_id: string }) {
  const versions = useRequest("compare_versions", { group_id });
  const [keeping, setKeeping] = useState<Keeping>(null);
  const working = versions.answer?.some(isWorking) ?? false;
  useRefresh(versions.reload, working ? WHILE_WORKING : WHILE_RESTING);
  const states = sessions.value.filter((row) => row.group_id === group_id).map((row) => row.state);
  useEffect(() => {
    if (versions.answer) versions.reload();
  }, [states.join()]);

  const applied = (winner: Version) => {
    keepVersion(group_id, winner);
    versions.reload();
    const rest = otherVersions(versions.answer ?? [], winner);
    setKeeping(rest.length > 0 ? { winner, step: "remove" } : null);
  };

  return (
    <PageFrame title="Versions" wide>
      <Loaded of={versions} waiting="Comparing…">
        {(answer) =>
          answer.length === 0 ? (
            <Empty icon="columns">
              <p>These versions no longer exist.</p>
            </Empty>
          ) : (
            <Comparison
              versions={answer}
              kept={keptVersion(group_id)}
              keep={(winner) => setKeeping({ winner, step: "apply" })}
            />
          )
        }
      </Loaded>
      {keeping?.step === "apply" && (
        <ApplyDialog
          worktreeId={keeping.winner.worktree_id}
          sessionId={keeping.winner.session_id}
          name={visibleLine(keeping.winner.name)}
          paths={[]}
          close={() => setKeeping(null)}
          applied={() => applied(keeping.winner)}
        />
      )}
      {keeping?.step === "remove" && (
        <RemoveOthersDialog
          versions={otherVersions(versions.answer ?? [], keeping.winner)}
          winner={keeping.winner}
          close={() => {
            setKeeping(null);
            versions.reload();
          }}
        />
      )}
    </PageFrame>
  );
}

interface Measured {
  readonly name: string;
  readonly show: (version: Version) => ComponentChildren;
}

interface Compared {
  readonly versions: readonly Version[];
  /** The session of the applied version. */
  readonly kept: string;
  readonly keep: (version: Version) => void;
  readonly files: FilesByVersion;
}

/** Columns side by side; a list on a phone. */
function Comparison(props: Omit<Compared, "files">) {
  const all = { ...props, files: useFiles(props.versions) };
  return (
    <>
      {useMedia(PHONE) ? <ComparisonCards {...all} /> : <ComparisonTable {...all} />}
      <FileVersions versions={props.versions} files={all.files} />
    </>
  );
}

function ComparisonTable({ versions, kept, keep, files }: Compared) {
  return (
    <div class="versions" tabIndex={0} role="region" aria-label="Version comparison">
      <table>
        <thead>
          <tr>
            <td />
            {versions.map((version) => (
              <th key={version.session_id} scope="col">
                <Name version={version} kept={kept} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {measures(versions, files).map(({ name, show }) => (
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
                <VersionActions version={version} keep={() => keep(version)} />
              </td>
            ))}
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function ComparisonCards({ versions, kept, keep, files }: Compared) {
  return (
    <ul class="cards" aria-label="Version comparison">
      {versions.map((version) => (
        <li key={version.session_id} class="card">
          <h2>
            <Name version={version} kept={kept} />
          </h2>
          <dl class="version-facts">
            {measures(versions, files).map(({ name, show }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{show(version)}</dd>
              </div>
            ))}
          </dl>
          <VersionActions version={version} keep={() => keep(version)} />
        </li>
      ))}
    </ul>
  );
}

function Name({ version, kept }: { version: Version; kept: string }) {
  const number = numbers.value.get(version.session_id);
  return (
    <span class="line-of">
      {number && <Badge>Version {number}</Badge>}
      <a href={hrefOf({ page: "session", session_id: version.session_id })}>{visibleLine(version.name)}</a>
      {version.session_id === kept && (
        <Badge tone="good" icon="check">
          Kept
        </Badge>
      )}
    </span>
  );
}

function measures(versions: readonly Version[], files: FilesByVersion): Measured[] {
  const best = { cost: lowest(versions, "cost"), tokens: lowest(versions, "tokens"), seconds: lowest(versions, "seconds") };
  const marked = (measure: keyof typeof best, word: string, show: (version: Version) => string) => (version: Version) => (
    <span class="line-of">
      {show(version)}
      {best[measure].has(version.session_id) && <Badge tone="good">{word}</Badge>}
    </span>
  );
  return [
    { name: "State", show: (version) => <StateBadge version={version} /> },
    { name: "Model", show: (version) => <span class="mono">{visibleLine(version.model) || "default"}</span> },
    { name: "Changes", show: (version) => <Changes version={version} /> },
    { name: "Files", show: (version) => <Files version={version} files={files} /> },
    { name: "Cost", show: marked("cost", "Lowest", (version) => (version.cost ? money(version.cost) : "–")) },
    { name: "Tokens", show: marked("tokens", "Fewest", (version) => tokens(version.tokens)) },
    { name: "Time", show: marked("seconds", "Fastest", (version) => duration(version.seconds * 1000)) },
    { name: "Result", show: (version) => <Result text={version.result} /> },
  ];
}

function StateBadge({ version }: { version: Version }) {
  const appearance = appearanceOf(version.state);
  return (
    <span class="line-of">
      <Badge tone={appearance.tone} icon={appearance.icon}>
        {appearance.words}
      </Badge>
      {version.worktree_id === "" && <Badge tone="careful">Worktree removed</Badge>}
    </span>
  );
}

function Changes({ version }: { version: Version }) {
  const { added, removed } = version.stats;
  if (version.note) return <span class="quiet">{visibleLine(version.note)}</span>;
  return (
    <>
      <div>{statsWords(version.stats)}</div>
      <div class="mono small">
        <span class="added-count">+{added}</span> <span class="removed-count">−{removed}</span>
      </div>
    </>
  );
}

const FILES_SHOWN = 12;

/** Changed files with links to their diffs. */
function Files({ version, files }: { version: Version; files: FilesByVersion }) {
  const { session_id } = version;
  const changed = files.get(session_id);
  if (version.worktree_id === "") return <span class="quiet">Unknown</span>;
  if (!changed) return <span class="quiet">…</span>;
  if (changed.length === 0) return <span class="quiet">None</span>;
  return (
    <ul class="version-files">
      {changed.slice(0, FILES_SHOWN).map((file) => (
        <li key={file.path}>
          <a class="mono" href={hrefOf({ page: "review", session_id })}>
            {visibleLine(file.path)}
          </a>{" "}
          <Counts file={file} />
        </li>
      ))}
      {changed.length > FILES_SHOWN && <li class="quiet">and {changed.length - FILES_SHOWN} more</li>}
    </ul>
  );
}

/** The changed files of each version; reloaded when its statistics change. */
function useFiles(versions: readonly Version[]): FilesByVersion {
  const [files, setFiles] = useState<FilesByVersion>(new Map());
  const there = versions.filter((version) => version.worktree_id !== "");
  const key = there.map(({ session_id, state, stats }) => [session_id, state, stats.files, stats.added, stats.removed].join());
  useEffect(() => {
    let active = true;
    for (const { session_id } of there) {
      request("review_changes", { session_id, scope: "branch" })
        .then((review) => active && setFiles((was) => new Map(was).set(session_id, review.files)))
        .catch((error: unknown) => active && toastError(error));
    }
    return () => {
      active = false;
    };
  }, [key.join(";")]);
  return files;
}

function Result({ text: markdown }: { text: string }) {
  const [whole, setWhole] = useState(false);
  const text = withoutMarkdown(markdown);
  const start = beginning(text);
  if (!text.trim()) return <span class="quiet">None yet</span>;
  return (
    <>
      <p class="version-result">{visibleText(whole ? text.trim() : start)}</p>
      {start !== text.trim() && (
        <Button compact kind="plain" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? "Show less" : "Show more"}
        </Button>
      )}
    </>
  );
}

function VersionActions({ version, keep }: { version: Version; keep: () => void }) {
  const why = whyNotKept(version);
  const { session_id } = version;
  return (
    <div class="version-acts">
      <Button kind="primary" icon="check" disabled={why !== null} onClick={keep}>
        Keep this version
      </Button>
      {why && <span class="quiet small">{why}</span>}
      <LinkButton icon="diff" href={hrefOf({ page: "review", session_id })}>
        Review
      </LinkButton>
    </div>
  );
}
