/** The prompt, at once, and how far its start has come. */
import { sessions } from "../store";
import { wordsOf } from "../states";
import { Spinner } from "../ui";
import { visibleText } from "../visible-text";

export function Starting({ prompt, images, known }: { prompt: string; images: number; known: ReadonlySet<string> }) {
  const rows = sessions.value.filter((row) => !known.has(row.session_id) && prompt.startsWith(row.prompt.slice(0, 400)));
  const steps = [...new Set(rows.map(wordsOf))];
  return (
    <div class="starting">
      <div class="starting-prompt">
        {visibleText(prompt)}
        {images > 0 && <div class="quiet small">{images === 1 ? "1 image" : `${images} images`}</div>}
      </div>
      <p class="quiet starting-step" role="status">
        <Spinner /> {steps.join(", ") || "Starting"}…
      </p>
    </div>
  );
}
