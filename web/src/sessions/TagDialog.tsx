import { useLayoutEffect, useState } from "preact/hooks";
import { request } from "../connection";
import { sessions } from "../store";
import { Field } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { tagged } from "./list-actions";
import { tagsOf } from "./session-groups";

/** Edits the tags of the session in `tagged`. */
export function TagDialog() {
  const row = tagged.value;
  const [words, setWords] = useState("");
  useLayoutEffect(() => setWords(row?.tags.join(" ") ?? ""), [row]); // before the user can type
  if (!row) return null;
  const chosen = words.split(/[\s,]+/).filter(Boolean);
  const close = () => (tagged.value = null);
  const save = async () => {
    await request("tag_session", { session_id: row.session_id, tags: chosen });
    close();
  };
  const others = tagsOf(sessions.value).filter((tag) => !chosen.includes(tag));
  return (
    <ActionDialog title="Tags" close={close} words="Save" act={save}>
      {(run) => (
        <>
          <Field label="Tags" hint="Words separated by spaces. Search for #word to find the sessions again.">
            <input
              class="input"
              value={words}
              autocapitalize="off"
              onInput={(event) => setWords(event.currentTarget.value)}
              onKeyDown={(event) => event.key === "Enter" && run()}
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
        </>
      )}
    </ActionDialog>
  );
}
