import { storedToken } from "../access";
import { connection } from "../connection";
import { Icon, Notice } from "../ui";

/** Shown without a valid token. The page has no data; a link from the terminal gives it access. */
export function NoAccess() {
  const problem = connection.problem.value;
  const hadAccess = storedToken() !== null;
  return (
    <main class="no-access">
      <div class="no-access-card">
        <span class="no-access-sign">
          <Icon name="rook" />
        </span>
        <h1>{hadAccess ? "This page needs a new link" : "This page needs a link"}</h1>
        {problem && (
          <Notice tone="careful" icon="alert">
            {problem}
          </Notice>
        )}
        {hadAccess && <p>The manager does not know this browser. Its access was revoked, or not used for 30 days.</p>}
        <p>Run this in your project. It opens a link that works once. Then this page works too:</p>
        <pre class="no-access-command">rookery manager</pre>
        <p>Your sessions keep running; nothing is lost.</p>
        <p class="quiet small">
          On a phone, scan the code that <code>rookery manager --host …</code> shows in the terminal.
        </p>
      </div>
    </main>
  );
}
