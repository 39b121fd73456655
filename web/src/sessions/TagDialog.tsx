import { useEffect, useState } from "preact/hooks";
import { request } from "../connection";
import { useAction } from "../requests";
import { sessions } from "../store";
import { Button, Dialog, Field } from "../ui";
import { tagged } from "./list-actions";
import { tagsOf } from "./session-groups";

/** Edits the tags of the session in `tagged`. */
export function TagDialog() {
  const row = tagged.value;
  const [words, setWords] = useState("");
  const [problem, setProblem] = useState("");
  const action = useAction(setProblem);
  useEffect(() => {
    setWords(row?.tags.join(" ") ?? "");
    setProblem("");
  }, [row]);
  if (!row) return null;
  const chosen = words.split(/[\s,]+/).filter(Boolean);
  const close = () => (tagged.value = null);
  const save = () =>
    action.run(async () => {
      await request("tag_session", { session_id: row.session_id, tags: chosen });
      close();
    });
  const others = tagsOf(sessions.value).filter((tag) => !chosen.includes(tag));
  return (
    <Dialog
      title="Tags"
      close={close}
      foot={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" busy={action.busy} onClick={save}>
            Save
          </Button>
        </>
      }
    >
      <Field label="Tags" problem={problem} hint="Words separated by spaces. Search for #word to find the sessions again.">
        <input
          class="input"
          value={words}
          autocapitalize="off"
          onInput={(event) => setWords(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && save()}
        />
      </Field>
      {others.length > 0 && (
        <div class="side-tags" role="group" aria-label="Tags in use">
          {others.map((tag) => (
            <button key={tag} type="button" class="filter" onClick={() => setWords(`${words.trim()} ${tag}`.trim())}>
              {tag}
            </button>
          ))}
        </div>
      )}
    </Dialog>
  );
}
