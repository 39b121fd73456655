/** The page that starts a session, or several versions of one. */
import { useEffect, useRef, useState } from "preact/hooks";

import { request } from "../connection";
import type { IntentRow, SettingRow, Started } from "../protocol";
import { useRequest, useAction } from "../requests";
import { go } from "../routes";
import { NOT_TRUSTED } from "../shell/Trust";
import { overview, sessionOf } from "../store";
import { Button, Field, Key, Notice, Switch, toast } from "../ui";
import { visibleLine } from "../visible-text";
import { controlText } from "../settings/setting-values";
import { PageFrame } from "../ui/PageFrame";
import { Choices } from "./Choices";
import {
  type Form,
  MAX_LABEL_LENGTH,
  problemOf,
  remember,
  rememberPrompt,
  remembered,
  requestOf,
  startWords,
  withOffered,
} from "./form";
import { ModelFields, type Defaults } from "./ModelFields";
import { saveOwnModels, ownModels } from "./own-models";
import { PlaceFields } from "./PlaceFields";
import { PromptField } from "./PromptField";
import "./new-agent.css";

const VERSIONS = ["1", "2", "3", "4"] as const;
const COMMAND = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";

export default function NewAgentPage() {
  const [form, setForm] = useState(remembered);
  const [problem, setProblem] = useState("");
  const action = useAction(setProblem);
  const models = useRequest("list_models", {});
  const modes = useRequest("list_modes", {});
  const intents = useRequest("list_intents", {});
  const settings = useRequest("read_settings", {});
  const offeredOnce = useRef(false);
  const trusted = overview.value?.trusted ?? true;
  const change = (some: Partial<Form>) => {
    setProblem("");
    setForm((was) => ({ ...was, ...some }));
  };

  useEffect(() => {
    const { answer: known } = models;
    const { answer: offered } = modes;
    // only once: later choices come from these lists or are typed on purpose
    if (known && offered && !offeredOnce.current) {
      offeredOnce.current = true;
      setForm((was) => withOffered(was, known, offered.map((mode) => mode.slug), ownModels()));
    }
  }, [models.answer, modes.answer]);

  useEffect(() => {
    const defaults = settings.answer?.find((row) => row.key === "manager.auto_approve")?.value === "true";
    if (settings.answer) setForm((was) => ({ ...was, autoApprove: was.autoApprove ?? defaults }));
  }, [settings.answer]);

  const start = () =>
    action.run(async () => {
      const wrong = trusted ? problemOf(form) : NOT_TRUSTED;
      if (wrong) return setProblem(wrong);
      setProblem("");
      const started = await request("start_sessions", requestOf(form));
      toastStarted(started, form.versions);
      remember(form);
      saveOwnModels(form, models.answer ?? []);
      rememberPrompt("");
      openStarted(started);
    });

  return (
    <PageFrame title="New session">
      <form
        class="new-agent"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <PromptField
          prompt={form.prompt}
          images={form.images}
          write={(prompt) => {
            change({ prompt });
            rememberPrompt(prompt);
          }}
          showPictures={(images) => change({ images })}
          start={start}
        />
        <div class="field-pair">
          <PlaceFields form={form} change={change} />
          <Choices
            label="Versions"
            choices={VERSIONS.map((id) => ({ id, words: id }))}
            chosen={String(form.versions) as (typeof VERSIONS)[number]}
            choose={(id) => change({ versions: Number(id) })}
            hint={form.versions > 1 ? "Runs the prompt several times, so that you can keep the best result." : undefined}
          />
        </div>
        <ModelFields form={form} change={change} models={models} modes={modes} defaults={defaultsOf(settings.answer ?? [])} />
        <div class="field-pair">
          <Field label="Name" hint="Leave empty to take it from the prompt.">
            <input
              class="input"
              value={form.label}
              maxLength={MAX_LABEL_LENGTH}
              onInput={(event) => change({ label: event.currentTarget.value })}
            />
          </Field>
          <IntentField intents={intents.answer ?? []} form={form} change={change} />
        </div>
        <div class="field">
          <Switch on={form.autoApprove === true} change={(autoApprove) => change({ autoApprove })}>
            Auto-approve
          </Switch>
          {form.autoApprove ? (
            <Notice tone="careful" icon="alert">
              The agent changes files and runs commands without asking. Dangerous actions still ask, and you can stop it
              at any time.
            </Notice>
          ) : (
            <div class="field-hint">The agent asks before it changes a file or runs a command.</div>
          )}
        </div>
        <div class="new-agent-foot">
          {problem && (
            <Notice tone="bad" icon="alert">
              {visibleLine(problem)}
            </Notice>
          )}
          {!trusted && !problem && (
            <Notice tone="careful" icon="shield">
              {NOT_TRUSTED} Trust it above.
            </Notice>
          )}
          <div class="new-agent-acts">
            <span class="quiet small new-agent-keys">
              <Key>{COMMAND}</Key> <Key>Enter</Key> to start
            </span>
            <Button kind="primary" icon="play" type="submit" busy={action.busy} disabled={!trusted}>
              {startWords(form)}
            </Button>
          </div>
        </div>
      </form>
    </PageFrame>
  );
}

function IntentField({
  intents,
  form,
  change,
}: {
  intents: readonly IntentRow[];
  form: Form;
  change: (some: Partial<Form>) => void;
}) {
  if (intents.length === 0) return null;
  const chosen = intents.find((intent) => intent.id === form.intent);
  return (
    <Field label="Intent" hint={chosen && `Scope: ${chosen.scope.map(visibleLine).join(", ") || "no paths"}`}>
      <select class="input" value={form.intent} onChange={(event) => change({ intent: event.currentTarget.value })}>
        <option value="">None</option>
        {intents.map((intent) => (
          <option key={intent.id} value={intent.id}>
            {visibleLine(`${intent.id} ${intent.name}`)}
          </option>
        ))}
      </select>
    </Field>
  );
}

function defaultsOf(settings: readonly SettingRow[]): Defaults {
  const rowOf = (key: string) => settings.find((row) => row.key === key);
  const text = (key: string) => {
    const row = rowOf(key);
    return row ? controlText(row) : "";
  };
  const model = [text("provider"), text("model")].filter(Boolean).join("/");
  return { model: text("model") ? model : "", mode: text("mode") };
}

function toastStarted(started: Started, versions: number): void {
  for (const note of started.notes) toast(note);
  if (started.failed.length === 0) return;
  const why = started.failed.join(" ");
  toast(`${started.session_ids.length} of ${versions} versions started. ${why}`, "bad");
}

/** Opens the session, or the comparison of the versions if the list already has their group. */
function openStarted({ session_ids }: Started): void {
  const first = session_ids[0];
  if (!first) return;
  const group = session_ids.length > 1 ? sessionOf(first)?.group_id : "";
  go(group ? { page: "versions", group_id: group } : { page: "session", session_id: first });
}
