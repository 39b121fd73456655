import { connection } from "../connection";
import { Icon, Notice } from "../ui";
import "./shell.css";

/** The page holds no data and needs none to be opened; with a link from the terminal it gets some. */
export function NoAccess() {
  const problem = connection.problem.value;
  return (
    <main class="no-access">
      <div class="no-access-card">
        <span class="no-access-sign">
          <Icon name="rook" />
        </span>
        <h1>This page needs a link</h1>
        {problem && (
          <Notice tone="careful" icon="alert">
            {problem}
          </Notice>
        )}
        <p>
          Run <code>rookery manager</code> in your project. It opens this page with a link that works once. Your sessions
          run on meanwhile; nothing is lost.
        </p>
        <p class="quiet small">
          On a phone, scan the code that <code>rookery manager --host …</code> shows in the terminal.
        </p>
      </div>
    </main>
  );
}
