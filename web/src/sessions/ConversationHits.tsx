import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../connection";
import type { FoundSession, SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { Empty, Spinner, toastError } from "../ui";
import { visibleLine } from "../visible-text";
import { markedParts } from "./session-groups";

const FEWEST_LETTERS = 3;
/** Milliseconds without typing after which conversations are searched. */
const AT_REST = 250;
const MOST = 30;

/** Sessions whose conversation contains the words, with the place, besides those `listed` by name. */
export function ConversationHits({ words, listed }: { words: string; listed: SessionRow[] }) {
  const found = useSignal<readonly FoundSession[] | null>(null);
  const searchable = words.trim().length >= FEWEST_LETTERS && !words.startsWith("#");
  useEffect(() => {
    found.value = searchable ? null : [];
    if (!searchable) return;
    let active = true;
    const search = () =>
      request("search_sessions", { words, most: MOST }).then(
        (hits) => active && (found.value = hits),
        (error: unknown) => {
          if (!active) return;
          found.value = [];
          toastError(error);
        },
      );
    const timer = setTimeout(() => void search(), AT_REST);
    return () => {
      active = false;
      clearTimeout(timer);
    };
  }, [words]);
  if (!found.value) return <Spinner label="Searching conversations" />;
  const known = new Set(listed.map((row) => row.session_id));
  const hits = found.value.filter((hit) => !known.has(hit.session_id));
  if (!hits.length) return listed.length ? null : <Empty icon="search">No sessions match.</Empty>;
  return (
    <section class="side-section" aria-label="In conversations">
      <h2 class="side-section-head">In conversations</h2>
      <ul>
        {hits.map((hit) => (
          <li key={hit.session_id}>
            <a class="session-item hit" href={hrefOf({ page: "session", session_id: hit.session_id })}>
              <span class="session-name cut">{visibleLine(hit.name) || "Untitled"}</span>
              {hit.archived && <span class="session-fact tag">archived</span>}
              <span class="hit-excerpt">
                {markedParts(visibleLine(hit.excerpt), words).map(({ text, found }, at) =>
                  found ? <mark key={at}>{text}</mark> : text,
                )}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
