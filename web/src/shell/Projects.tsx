import { folderName } from "../format";
import type { ProjectRow } from "../protocol";
import { hrefIn, hrefOf } from "../routes";
import { appearanceOf } from "../states";
import { overview } from "../store";
import { Badge, Count, Icon } from "../ui";
import { visibleLine } from "../visible-text";
import "./projects.css";

/** Links to the user's projects, with what waits there. Empty if there is only one. */
export function ProjectStrip() {
  const { other_projects: others = [], project = "" } = overview.value ?? {};
  if (!others.length) return null;
  const all = [null, ...others].sort((one, other) => (sortedBy(one, project) < sortedBy(other, project) ? -1 : 1));
  return (
    <nav class="projects" aria-label="Projects">
      {all.map((each) =>
        each ? (
          <a key={each.id} class="project" href={hrefIn(each.id, { page: "home" })} title={titleOf(each)}>
            <span class="cut">{visibleLine(each.name)}</span>
            <Count of={each.counts.attention} label={`waiting in ${visibleLine(each.name)}`} />
          </a>
        ) : (
          <a key="" class="project" href={hrefOf({ page: "home" })} aria-current="true" title={visibleLine(project)}>
            <Icon name="folder" />
            <span class="cut">{visibleLine(folderName(project))}</span>
          </a>
        ),
      )}
    </nav>
  );
}

/** By name, so that a project stays where it is when another one is opened. `null` is the one that is open. */
function sortedBy(each: ProjectRow | null, project: string): string {
  const path = each?.path ?? project;
  return `${folderName(path)}\n${path}`;
}

/** The sessions of other projects that need the user, for the end of the inbox. */
export function WaitingElsewhere() {
  const others = (overview.value?.other_projects ?? []).filter((each) => each.waiting.length);
  return (
    <>
      {others.map((each) => (
        <section key={each.id} class="elsewhere" aria-label={`Waiting in ${visibleLine(each.name)}`}>
          <h2>Waiting in {visibleLine(each.name)}</h2>
          <ul>
            {each.waiting.map(({ session_id, name, state }) => (
              <li key={session_id}>
                <a class="elsewhere-row" href={hrefIn(each.id, { page: "session", session_id })}>
                  <span class="cut grow">{visibleLine(name) || "Untitled"}</span>
                  <Badge tone={appearanceOf(state).tone} icon={appearanceOf(state).icon}>
                    {appearanceOf(state).words}
                  </Badge>
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

function titleOf({ path, counts, running_limit }: ProjectRow): string {
  const limit = running_limit ? ` of at most ${running_limit} at once` : "";
  return `${visibleLine(path)}: ${counts.active} active${limit}`;
}
