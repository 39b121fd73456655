/** The page that starts a session, or several versions of one. */
import { useEffect, useRef, useState } from "preact/hooks";

import { request } from "../connection";
import type { IntentRow, KnownMode, KnownModel, SettingRow, Started } from "../protocol";
import { type RequestState, useRequest, useAction } from "../requests";
import { budgetWords } from "../cost/cost-figures";
import { go, hrefOf } from "../routes";
import { NOT_TRUSTED } from "../shell/Trust";
import { overview, sessionOf, sessions } from "../store";
import { Button, Field, Key, Notice, Problem, toast } from "../ui";
import { Select } from "../ui/select";
import { visibleLine } from "../visible-text";
import { controlText } from "../settings/setting-values";
import { PageFrame } from "../ui/PageFrame";
import { Chips } from "./Chips";
import type { ChipId } from "./chips";
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
import { Starting } from "./Starting";
import "./new-agent.css";

const VERSIONS = ["1", "2", "3", "4"] as const;
const COMMAND = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";

export default function NewAgentPage() {
  const [form, setForm] = useState(remembered);
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState<ChipId | null>(null);
  const [known, setKnown] = useState<ReadonlySet<string> | null>(null);
  const action = useAction(setProblem);
  const models = useRequest("list_models", {});
  const modes = useRequest("list_modes", {});
  const settings = useRequest("read_settings", {});
  const offeredOnce = useRef(false);
  const trusted = overview.value?.trusted ?? true;
  const change = (some: Partial<Form>) => {
    setProblem("");
    setForm((was) => ({ ...was, ...some }));
  };

  const toggle = (id: ChipId) => setOpen((was) => (was === id ? null : id));

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
    if (settings.answer || settings.problem) setForm((was) => ({ ...was, autoApprove: was.autoApprove ?? defaults }));
  }, [settings.answer, settings.problem]);

  const start = () =>
    action.run(async () => {
      const wrong = trusted ? problemOf(form) : NOT_TRUSTED;
      if (wrong) return setProblem(wrong);
      setProblem("");
      setKnown(new Set(sessions.value.map((row) => row.session_id)));
      const started = await request("start_sessions", requestOf(form));
      toastStarted(started, form.versions);
      remember(form);
      saveOwnModels(form, models.answer ?? []);
      rememberPrompt("");
      openStarted(started);
    });

  if (action.busy && known) {
    return (
      <PageFrame title="New session">
        <Starting prompt={form.prompt} images={form.images.length} known={known} />
      </PageFrame>
    );
  }
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
        >
          <Chips form={form} change={change} open={open} toggle={toggle} modes={modes.answer ?? []}>
            <ChipFields of={open} form={form} change={change} models={models} modes={modes} settings={settings.answer ?? []} />
          </Chips>
          <div class="new-agent-acts">
            <span class="quiet small new-agent-keys">
              <Key>{COMMAND}</Key> <Key>Enter</Key> to start
            </span>
            <Button kind="primary" icon="play" type="submit" busy={action.busy} disabled={!trusted}>
              {startWords(form)}
            </Button>
          </div>
        </PromptField>
        <div class="new-agent-foot">
          <p class="quiet small">
            {form.autoApprove
              ? "The agent changes files and runs commands without asking. Dangerous actions still ask."
              : "The agent asks before it changes a file or runs a command."}
          </p>
          <BudgetNotice />
          <Problem words={visibleLine(problem)} />
          {!trusted && !problem && (
            <Notice tone="careful" icon="shield">
              {NOT_TRUSTED} Trust it above.
            </Notice>
          )}
        </div>
      </form>
    </PageFrame>
  );
}

/** Shown if today's budget is used up. */
function BudgetNotice() {
  const { answer } = useRequest("read_costs", { days: 1 });
  if (!answer?.daily_budget || (answer.today.cost ?? 0) < answer.daily_budget) return null;
  return (
    <Notice tone="careful" icon="coins">
      Today: {budgetWords(answer.today, answer.daily_budget)} <a href={hrefOf({ page: "cost" })}>Show cost</a>
    </Notice>
  );
}

function ChipFields(props: {
  of: ChipId | null;
  form: Form;
  change: (some: Partial<Form>) => void;
  models: RequestState<readonly KnownModel[]>;
  modes: RequestState<readonly KnownMode[]>;
  settings: readonly SettingRow[];
}) {
  const { of, form, change, models, modes, settings } = props;
  switch (of) {
    case "place":
      return <PlaceFields form={form} change={change} />;
    case "versions":
      return (
        <Choices
          label="Versions"
          choices={VERSIONS.map((id) => ({ id, words: id }))}
          chosen={String(form.versions) as (typeof VERSIONS)[number]}
          choose={(id) => change({ versions: Number(id) })}
          hint="Several versions of the same prompt run side by side, so that you can keep the best."
        />
      );
    case "model":
    case "mode":
      return <ModelFields form={form} change={change} models={models} modes={modes} defaults={defaultsOf(settings)} />;
    case "more":
      return <MoreFields form={form} change={change} />;
    case null:
      return null;
  }
}

function MoreFields({ form, change }: { form: Form; change: (some: Partial<Form>) => void }) {
  const intents = useRequest("list_intents", {});
  return (
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
      <Select
        value={form.intent}
        change={(intent) => change({ intent })}
        options={[
          { value: "", label: "None" },
          ...intents.map(({ id, name }) => ({ value: id, label: visibleLine(`${id} ${name}`) })),
        ]}
      />
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
