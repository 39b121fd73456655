// Made by `npm run types` from the protocol's schema. Changes belong into the Python classes.

/** List the sessions of the project, also those started without a manager: those that contain all `words`, archived ones only with `archived`. */
export interface ListSessions {
  kind: "list_sessions";
  words?: string;
  archived?: boolean;
}

/** List what needs you: questions, then failures, then results. */
export interface ListQuestions {
  kind: "list_questions";
}

/** Start a session, or up to four versions of it, each in its own worktree. `models` has one model per version, `model` is one for all; both are written `provider/model` or `model`. */
export interface StartSessions {
  kind: "start_sessions";
  prompt: string;
  images?: string[];
  label?: string;
  where?: "local" | "worktree";
  versions?: number;
  model?: string;
  models?: string[];
  mode?: string;
  base?: string;
  branch?: string;
  worktree_id?: string;
  auto_approve?: boolean;
  intent?: string;
}

/** Trust the project. `path` must be its exact path. */
export interface TrustProject {
  kind: "trust_project";
  path: string;
}

/** Send a message to a session. - reads standard input. */
export interface SendWords {
  kind: "send_words";
  session_id: string;
  text: string;
  images?: string[];
  ask_ts?: number | null;
}

/** Approve the question of `ask_ts`, as `digest` names it; `always` keeps its rule. */
export interface ApproveAction {
  kind: "approve_action";
  session_id: string;
  ask_ts: number;
  digest?: string;
  text?: string;
  always?: boolean;
  choice?: "task" | "expand" | "halt" | null;
}

export interface RejectAction {
  kind: "reject_action";
  session_id: string;
  ask_ts: number;
  text?: string;
  choice?: "task" | "expand" | "halt" | null;
}

/** Stop a session. It can be resumed. */
export interface CancelSession {
  kind: "cancel_session";
  session_id: string;
}

/** Resume a session, optionally with a message. */
export interface ResumeSession {
  kind: "resume_session";
  session_id: string;
  text?: string;
}

/** Retry a session that failed. */
export interface RetrySession {
  kind: "retry_session";
  session_id: string;
}

/** Stop a session and hide it from all lists. Nothing is deleted. */
export interface RemoveSession {
  kind: "remove_session";
  session_id: string;
}

/** Stop all sessions. They can be resumed. */
export interface StopAll {
  kind: "stop_all";
}

/** Rename a session. Without a LABEL, name it after its prompt. */
export interface RenameSession {
  kind: "rename_session";
  session_id: string;
  label?: string;
}

/** Archive a session, so that it is not listed. */
export interface ArchiveSession {
  kind: "archive_session";
  session_id: string;
  archived?: boolean;
}

/** Mark a session as read. */
export interface MarkRead {
  kind: "mark_read";
  session_id: string;
}

/** Resend a message that was not delivered. */
export interface RetryMail {
  kind: "retry_mail";
  session_id: string;
  number: number;
}

/** Discard a message that was not delivered. */
export interface DiscardMail {
  kind: "discard_mail";
  session_id: string;
  number: number;
}

/** Edit a queued message. Without TEXT, discard it. */
export interface EditQueued {
  kind: "edit_queued";
  session_id: string;
  message_id: string;
  text?: string | null;
}

/** Change the mode, model, intent or auto-approve of a session. */
export interface SwitchSession {
  kind: "switch_session";
  session_id: string;
  mode?: string | null;
  model?: string | null;
  intent?: string | null;
  auto_approve?: boolean | null;
}

/** Copy a session, with the conversation up to the row of `ts`, or all of it. */
export interface ForkSession {
  kind: "fork_session";
  session_id: string;
  ts?: number | null;
}

/** Export a session as a document. Check it before you share it. */
export interface ExportSession {
  kind: "export_session";
  session_id: string;
  format?: "markdown" | "json" | "html";
}

/** List the checkpoints, newest last. */
export interface ListCheckpoints {
  kind: "list_checkpoints";
  session_id: string;
}

export interface RehearseRestore {
  kind: "rehearse_restore";
  session_id: string;
  to: number;
  overwrite?: boolean;
}

/** Restore `files`, the `conversation`, or both, as they were at `to`. */
export interface RestoreSession {
  kind: "restore_session";
  session_id: string;
  to: number;
  files?: boolean;
  conversation?: boolean;
  overwrite?: boolean;
}

/** List the available models. */
export interface ListModels {
  kind: "list_models";
}

/** List the available modes. */
export interface ListModes {
  kind: "list_modes";
}

/** List the branches of the project. */
export interface ListBranches {
  kind: "list_branches";
}

/** List files and folders that match LETTERS, best first. */
export interface FindPaths {
  kind: "find_paths";
  letters?: string;
  session_id?: string;
  most?: number;
}

/** List the intents of the project. */
export interface ListIntents {
  kind: "list_intents";
}

/** List the records of the ledger, newest first. */
export interface ReadTrace {
  kind: "read_trace";
  intent?: string;
  path?: string;
  session_id?: string;
  most?: number;
}

/** Show the intent of each line of a file. */
export interface BlameFile {
  kind: "blame_file";
  path: string;
  session_id?: string;
}

export interface ReadSettings {
  kind: "read_settings";
}

/** Change a user setting. `value` is JSON; null restores the default. */
export interface ChangeSetting {
  kind: "change_setting";
  key: string;
  value?: string | null;
}

/** List paired devices. */
export interface ListDevices {
  kind: "list_devices";
}

/** Revoke the access of a device. */
export interface RevokeDevice {
  kind: "revoke_device";
  id: string;
}

/** List the worktrees. */
export interface ListWorktrees {
  kind: "list_worktrees";
}

/** Show how a worktree differs from its base branch. */
export interface ReadStats {
  kind: "read_stats";
  worktree_id: string;
}

/** Recreate the missing folder of a worktree from its branch. */
export interface RecreateWorktree {
  kind: "recreate_worktree";
  worktree_id: string;
}

/** Commit all changes in a worktree to its branch. */
export interface FinishWorktree {
  kind: "finish_worktree";
  worktree_id: string;
  message?: string;
}

/** Show what applying a worktree's changes would do; `paths` limits it to some files. */
export interface PlanApply {
  kind: "plan_apply";
  worktree_id: string;
  paths?: string[];
}

export interface ApplyWorktree {
  kind: "apply_worktree";
  worktree_id: string;
  paths?: string[];
  token?: string;
}

/** Merge a worktree's branch into its base branch. */
export interface MergeWorktree {
  kind: "merge_worktree";
  worktree_id: string;
}

export interface PlanRemoval {
  kind: "plan_removal";
  worktree_id: string;
}

/** Stop its sessions, save uncommitted work under a git ref, and remove the folder. */
export interface RemoveWorktree {
  kind: "remove_worktree";
  worktree_id: string;
  token?: string;
  delete_branch?: boolean;
}

/** List branches and worktrees that can be imported. */
export interface ListImportable {
  kind: "list_importable";
}

/** Import a branch or an existing worktree. */
export interface ImportWork {
  kind: "import_work";
  branch?: string;
  folder?: string;
}

/** List work saved when a worktree was removed or a file reverted. */
export interface ListKept {
  kind: "list_kept";
}

/** Restore saved work into a new worktree on a new BRANCH. */
export interface BringBack {
  kind: "bring_back";
  ref: string;
  branch: string;
}

/** Start the project's run script in a worktree. */
export interface RunScript {
  kind: "run_script";
  worktree_id: string;
}

/** Stop the run script of a worktree. */
export interface StopScript {
  kind: "stop_script";
  worktree_id: string;
}

/** Print the project's scripts for worktrees. */
export interface ListScripts {
  kind: "list_scripts";
}

/** Agree to the script with this digest, until it changes. */
export interface AgreeScript {
  kind: "agree_script";
  digest: string;
}

/** List the changes in a worktree, or those of a session without one. */
export interface ReviewChanges {
  kind: "review_changes";
  session_id: string;
  scope?: "branch" | "staged" | "unstaged" | "session";
}

/** Show the diff of one file, with `context` lines around each change. */
export interface ReadDiff {
  kind: "read_diff";
  session_id: string;
  path: string;
  scope?: "branch" | "staged" | "unstaged" | "session";
  context?: number;
}

/** Restore one file as it was at the base. Its content is saved under a git ref. */
export interface RevertFile {
  kind: "revert_file";
  session_id: string;
  path: string;
  digest: string;
}

/** Send comments on a diff, as one message to the session. */
export interface SendComments {
  kind: "send_comments";
  session_id: string;
  comments: LineComment[];
  text?: string;
}

/** A comment on a line of a diff: of the new text, or of the old one if `old`. */
export interface LineComment {
  path: string;
  line: number;
  text: string;
  old?: boolean;
}

export interface CompareVersions {
  kind: "compare_versions";
  group_id: string;
}

export type AnyRequest = ListSessions | ListQuestions | StartSessions | TrustProject | SendWords | ApproveAction | RejectAction | CancelSession | ResumeSession | RetrySession | RemoveSession | StopAll | RenameSession | ArchiveSession | MarkRead | RetryMail | DiscardMail | EditQueued | SwitchSession | ForkSession | ExportSession | ListCheckpoints | RehearseRestore | RestoreSession | ListModels | ListModes | ListBranches | FindPaths | ListIntents | ReadTrace | BlameFile | ReadSettings | ChangeSetting | ListDevices | RevokeDevice | ListWorktrees | ReadStats | RecreateWorktree | FinishWorktree | PlanApply | ApplyWorktree | MergeWorktree | PlanRemoval | RemoveWorktree | ListImportable | ImportWork | ListKept | BringBack | RunScript | StopScript | ListScripts | AgreeScript | ReviewChanges | ReadDiff | RevertFile | SendComments | CompareVersions;

export interface Listing {
  overview: Overview;
  sessions: SessionRow[];
}

/** The summary above the session list. */
export interface Overview {
  counts: Counts;
  project: string;
  running_limit: number;
  notices: string[];
  read_only: string;
  trusted: boolean;
  blocked_requests: number;
}

/** The numbers above the session list. */
export interface Counts {
  active: number;
  history: number;
  archived: number;
  attention: number;
}

/** A session in the list. Times are milliseconds. */
export interface SessionRow {
  session_id: string;
  name: string;
  prompt: string;
  state: "idle" | "creating" | "streaming" | "waiting_approval" | "waiting_input" | "completed" | "paused" | "error" | "stopped";
  flags: Flags;
  start_time: number;
  end_time: number | null;
  provider: string | null;
  model: string | null;
  mode: string | null;
  auto_approve: boolean;
  tokens: number;
  cost: number;
  todo_stats: TodoStats | null;
  unread: boolean;
  archived: boolean;
  queued: boolean;
  unresponsive: boolean;
  step: string;
  failure: Failure | null;
  mail: MailRow[];
  worktree_id: string | null;
  branch: string;
  group_id: string;
  intent: string;
  workspace: string;
  logs: string[];
}

/** What a page shows and offers. */
export interface Flags {
  show_spinner: boolean;
  show_cancel_button: boolean;
  show_resume_button: boolean;
  show_auto_mode_warning: boolean;
  input_enabled: boolean;
  is_active: boolean;
  show_approval_buttons: boolean;
  show_retry_button: boolean;
  can_queue_text: boolean;
  can_guide_text: boolean;
  needs_attention: boolean;
  can_finish_to_branch: boolean;
  can_create_pull_request: boolean;
}

export interface TodoStats {
  done: number;
  total: number;
}

export interface Failure {
  kind: "api" | "auth" | "payment" | "model" | "mistakes" | "creation_timeout" | "creation_interrupted" | "early_exit" | "process" | "crash";
  text: string;
}

/** A message on its way to a session. */
export interface MailRow {
  number: number;
  text: string;
  images: number;
  state: "queued" | "sending" | "sent" | "failed";
  retries: number;
  problem: string;
}

export type AnswerToListSessions = Listing;

/** An open question, with everything that an approval would allow. */
export interface InboxRow {
  session_id: string;
  name: string;
  task_id: string;
  ts: number;
  ask: string;
  state: "idle" | "creating" | "streaming" | "waiting_approval" | "waiting_input" | "completed" | "paused" | "error" | "stopped";
  text: string;
  html: string[];
  digest: string;
  title: string;
  diff: string;
  where: string;
  notes: string[];
  rule: string;
  images: number;
  governance: IntentQuestion | null;
}

/** `pattern` is what `expand` would add to the scope. `grant` is what `task` would allow for the rest of the task: a path pattern or a command prefix. */
export interface IntentQuestion {
  intent_id: string;
  intent_name: string;
  revision: number;
  scope: string[];
  reasons: AskedReason[];
  targets: AskedTarget[];
  analysis: string;
  sandboxed: boolean;
  pattern: string;
  grant: string;
  choices: ("task" | "expand" | "halt")[];
}

export interface AskedReason {
  code: string;
  error_type: string;
  text: string;
}

export interface AskedTarget {
  path: string;
  op: string;
  verdict: string;
  nearest: string;
  real_path: string;
}

export type AnswerToListQuestions = InboxRow[];

/** `failed` says why there are fewer sessions than versions. */
export interface Started {
  session_ids: string[];
  notes: string[];
  failed: string[];
}

export type AnswerToStartSessions = Started;

/** It was done; `notes` are sentences about it. */
export interface Done {
  notes: string[];
}

export type AnswerToTrustProject = Done;

export type AnswerToSendWords = Done;

export type AnswerToApproveAction = Done;

export type AnswerToRejectAction = Done;

export type AnswerToCancelSession = Done;

export type AnswerToResumeSession = Done;

export type AnswerToRetrySession = Done;

export type AnswerToRemoveSession = Done;

export type AnswerToStopAll = Done;

export type AnswerToRenameSession = Done;

export type AnswerToArchiveSession = Done;

export type AnswerToMarkRead = Done;

export type AnswerToRetryMail = Done;

export type AnswerToDiscardMail = Done;

export type AnswerToEditQueued = Done;

export type AnswerToSwitchSession = Done;

export type AnswerToForkSession = Started;

/** A file to save. */
export interface Exported {
  name: string;
  text: string;
}

export type AnswerToExportSession = Exported;

/** A point that a session can be rewound to. */
export interface CheckpointRow {
  seq: number;
  ts: number;
  title: string;
  paths: string[];
}

export type AnswerToListCheckpoints = CheckpointRow[];

/** What restoring would do to files. `kept` are files that someone else changed. */
export interface RestoreRehearsal {
  written: string[];
  removed: string[];
  kept: string[];
  unsaved: string[];
  problem: string;
}

export type AnswerToRehearseRestore = RestoreRehearsal;

export type AnswerToRestoreSession = Done;

export interface KnownModel {
  provider: string;
  model: string;
  window: number;
  images: boolean;
  price_in: number | null;
  price_out: number | null;
}

export type AnswerToListModels = KnownModel[];

export interface KnownMode {
  slug: string;
  name: string;
  when_to_use: string;
  source: string;
}

export type AnswerToListModes = KnownMode[];

export type AnswerToListBranches = string[];

/** A file or folder of the workspace. */
export interface FoundPath {
  path: string;
  folder: boolean;
}

export type AnswerToFindPaths = FoundPath[];

export interface IntentRow {
  id: string;
  name: string;
  status: string;
  scope: string[];
  criteria: string[];
  problem: string;
  writes: number;
}

export type AnswerToListIntents = IntentRow[];

/** One record of the ledger in a list. */
export interface TraceRow {
  id: string;
  ts: number;
  kind: string;
  intent: string;
  tool: string;
  paths: string[];
  approved_by: string;
  session_id: string;
  summary: string;
}

export type AnswerToReadTrace = TraceRow[];

export interface BlamedLine {
  line: number;
  text: string;
  record_id: string;
  intent: string;
  criterion: string;
  tool: string;
  approved_by: string;
  when: number;
}

export type AnswerToBlameFile = BlamedLine[];

/** A setting as the page shows it. `choices` is empty if any value of its type is valid. */
export interface SettingRow {
  key: string;
  value: string;
  type: "bool" | "int" | "float" | "str" | "list";
  summary: string;
  choices: string[];
  source: string;
}

export type AnswerToReadSettings = SettingRow[];

export type AnswerToChangeSetting = Done;

/** A phone or another machine that was paired. */
export interface Device {
  id: string;
  name: string;
  paired: number;
  seen: number;
}

export type AnswerToListDevices = Device[];

export type AnswerToRevokeDevice = Done;

export interface WorktreeRow {
  id: string;
  branch: string;
  path: string;
  parent_branch: string;
  state: "ready" | "missing" | "lost" | "broken" | "unfinished";
  label: string;
  group_id: string;
  imported: boolean;
  sessions: string[];
  running: boolean;
  first_port: number;
}

export type AnswerToListWorktrees = WorktreeRow[];

/** The changes of a worktree since its base branch. */
export interface WorktreeStats {
  files: number;
  added: number;
  removed: number;
  ahead: number;
  behind: number;
  uncommitted: number;
}

export type AnswerToReadStats = WorktreeStats;

export type AnswerToRecreateWorktree = Done;

export type AnswerToFinishWorktree = Done;

/** What an operation would do. `token` identifies this plan and is sent with the request that carries it out; if anything has changed since, nothing is done. */
export interface Plan {
  text: string;
  paths: string[];
  conflicts: string[];
  token: string;
}

export type AnswerToPlanApply = Plan;

export type AnswerToApplyWorktree = Done;

export type AnswerToMergeWorktree = Done;

export type AnswerToPlanRemoval = Plan;

export type AnswerToRemoveWorktree = Done;

export interface Importables {
  branches: string[];
  worktrees: string[];
}

export type AnswerToListImportable = Importables;

export type AnswerToImportWork = WorktreeRow;

export interface KeptWork {
  ref: string;
  commit: string;
  about: string;
}

export type AnswerToListKept = KeptWork[];

export type AnswerToBringBack = WorktreeRow;

export type AnswerToRunScript = Done;

export type AnswerToStopScript = Done;

/** A script of the project for its worktrees. It is run with exactly this text, once the user has agreed to it. */
export interface ScriptRow {
  name: string;
  path: string;
  text: string;
  digest: string;
  agreed: boolean;
}

export type AnswerToListScripts = ScriptRow[];

export type AnswerToAgreeScript = Done;

/** The changes in a worktree or, for a local session, in its project. */
export interface Review {
  scope: string;
  base: string;
  stats: WorktreeStats;
  files: ChangedFile[];
  notes: string[];
}

/** `digest` identifies this content; a request that acts on the file must send it. */
export interface ChangedFile {
  path: string;
  kind: "added" | "changed" | "removed" | "renamed";
  old_path: string;
  added: number;
  removed: number;
  binary: boolean;
  image: boolean;
  generated: boolean;
  too_large: boolean;
  digest: string;
}

export type AnswerToReviewChanges = Review;

export interface FileDiff {
  file: ChangedFile;
  lines: DiffLine[];
  note: string;
  old_image: string;
  new_image: string;
}

/** `html` is the highlighted, sanitised line; a gap says how many lines are left out. */
export interface DiffLine {
  kind: "same" | "added" | "removed" | "gap";
  old: number | null;
  new: number | null;
  html: string;
}

export type AnswerToReadDiff = FileDiff;

export type AnswerToRevertFile = Done;

export type AnswerToSendComments = Done;

/** One of several versions of the same prompt. */
export interface Version {
  session_id: string;
  worktree_id: string;
  name: string;
  model: string;
  state: "idle" | "creating" | "streaming" | "waiting_approval" | "waiting_input" | "completed" | "paused" | "error" | "stopped";
  stats: WorktreeStats;
  cost: number;
  tokens: number;
  seconds: number;
  result: string;
  note: string;
}

export type AnswerToCompareVersions = Version[];

/** An image; `data` is base64. */
export interface Picture {
  media_type: string;
  data: string;
}

/** A row of a view. What it does not have is left out. */
export interface Row {
  ts: number;
  type: "say" | "ask";
  say?: string | null;
  ask?: string | null;
  images?: Picture[];
  partial?: boolean;
  answered?: boolean;
  outcome?: "" | "denied" | "failed";
  seq?: number;
  ask_id?: string;
  call_id?: string;
  digest?: string;
  title?: string;
  diff?: string;
  where?: string;
  notes?: string[];
  rule?: string;
  governance?: IntentQuestion | null;
  text?: string | null;
  /** The beginning of the text, rendered and sanitised. */
  html?: string[];
  /** The length of that beginning, in UTF-16 units. */
  html_upto?: number;
  /** The task that works for this call. */
  task_id?: string;
}

/** What is new about a row; of its text, `drop` characters at the end go and `append` is added, or `text` replaces all of it. */
export interface RowChange {
  ts: number;
  type?: "say" | "ask";
  say?: string | null;
  ask?: string | null;
  images?: Picture[];
  partial?: boolean;
  answered?: boolean;
  outcome?: "" | "denied" | "failed";
  seq?: number;
  ask_id?: string;
  call_id?: string;
  digest?: string;
  title?: string;
  diff?: string;
  where?: string;
  notes?: string[];
  rule?: string;
  governance?: IntentQuestion | null;
  text?: string | null;
  drop?: number;
  append?: string;
  /** The beginning of the text, rendered and sanitised. */
  html?: string[];
  /** The length of that beginning, in UTF-16 units. */
  html_upto?: number;
  /** The task that works for this call. */
  task_id?: string;
  html_add?: string[];
}

/** Later changes are made for this version of this intent. */
export interface IntentSelected {
  intent_id: string;
  name: string;
  revision: number;
  digest: string;
  scope: string[];
  by: "model" | "user" | "parent";
}

/** Sums over all requests. Cache usage that the provider never reported stays None. `context_tokens` is the size of the newest request with a reported size. */
export interface Totals {
  tokens_in: number;
  tokens_out: number;
  cache_writes: number | null;
  cache_reads: number | null;
  cost: number;
  context_tokens: number;
}

export interface Todo {
  id: string;
  content: string;
  status: "pending" | "in_progress" | "completed";
}

export interface ViewChange {
  added?: Row[];
  changed?: RowChange[];
  removed?: number[];
  parts?: {
    agent?: {
      state: string;
      current_ask: string | null;
      required_action: string;
    };
    mode?: string;
    model?: string;
    automatic?: boolean | null;
    intent?: IntentSelected | null;
    usage?: Totals;
    todos?: Todo[];
    queue?: {
      message_id: string;
      text: string;
      images: Picture[];
    }[];
    open_ask?: number | null;
    closed?: boolean;
    silence?: number;
    waiting_for?: string;
  };
}

export interface Initialized {
  protocol: 1;
  host: {
    name: string;
    version: string;
  };
  requests: ("agree_script" | "apply_worktree" | "approve_action" | "archive_session" | "blame_file" | "bring_back" | "cancel_session" | "change_setting" | "compare_versions" | "discard_mail" | "edit_queued" | "export_session" | "find_paths" | "finish_worktree" | "fork_session" | "import_work" | "list_branches" | "list_checkpoints" | "list_devices" | "list_importable" | "list_intents" | "list_kept" | "list_models" | "list_modes" | "list_questions" | "list_scripts" | "list_sessions" | "list_worktrees" | "mark_read" | "merge_worktree" | "plan_apply" | "plan_removal" | "read_diff" | "read_settings" | "read_stats" | "read_trace" | "recreate_worktree" | "rehearse_restore" | "reject_action" | "remove_session" | "remove_worktree" | "rename_session" | "restore_session" | "resume_session" | "retry_mail" | "retry_session" | "revert_file" | "review_changes" | "revoke_device" | "run_script" | "send_comments" | "send_words" | "start_sessions" | "stop_all" | "stop_script" | "switch_session" | "trust_project")[];
}

export interface Followed {
  follow_id: number;
}

/** The first has everything, later ones what changed: whole rows, and `order`, `inbox` and `overview` whole if they changed. */
export interface ListChange {
  follow_id: number;
  overview?: Overview;
  rows?: SessionRow[];
  removed?: string[];
  order?: string[];
  inbox?: InboxRow[];
}

/** `earlier` is the number of rows before the window; `widen` fetches them. */
export interface SessionChange {
  follow_id: number;
  seq: number;
  earlier: number;
  change: ViewChange;
}

export interface Refusal {
  code: number;
  message: string;
}

export interface Requests {
  list_sessions: ListSessions;
  list_questions: ListQuestions;
  start_sessions: StartSessions;
  trust_project: TrustProject;
  send_words: SendWords;
  approve_action: ApproveAction;
  reject_action: RejectAction;
  cancel_session: CancelSession;
  resume_session: ResumeSession;
  retry_session: RetrySession;
  remove_session: RemoveSession;
  stop_all: StopAll;
  rename_session: RenameSession;
  archive_session: ArchiveSession;
  mark_read: MarkRead;
  retry_mail: RetryMail;
  discard_mail: DiscardMail;
  edit_queued: EditQueued;
  switch_session: SwitchSession;
  fork_session: ForkSession;
  export_session: ExportSession;
  list_checkpoints: ListCheckpoints;
  rehearse_restore: RehearseRestore;
  restore_session: RestoreSession;
  list_models: ListModels;
  list_modes: ListModes;
  list_branches: ListBranches;
  find_paths: FindPaths;
  list_intents: ListIntents;
  read_trace: ReadTrace;
  blame_file: BlameFile;
  read_settings: ReadSettings;
  change_setting: ChangeSetting;
  list_devices: ListDevices;
  revoke_device: RevokeDevice;
  list_worktrees: ListWorktrees;
  read_stats: ReadStats;
  recreate_worktree: RecreateWorktree;
  finish_worktree: FinishWorktree;
  plan_apply: PlanApply;
  apply_worktree: ApplyWorktree;
  merge_worktree: MergeWorktree;
  plan_removal: PlanRemoval;
  remove_worktree: RemoveWorktree;
  list_importable: ListImportable;
  import_work: ImportWork;
  list_kept: ListKept;
  bring_back: BringBack;
  run_script: RunScript;
  stop_script: StopScript;
  list_scripts: ListScripts;
  agree_script: AgreeScript;
  review_changes: ReviewChanges;
  read_diff: ReadDiff;
  revert_file: RevertFile;
  send_comments: SendComments;
  compare_versions: CompareVersions;
}

export interface Answers {
  list_sessions: AnswerToListSessions;
  list_questions: AnswerToListQuestions;
  start_sessions: AnswerToStartSessions;
  trust_project: AnswerToTrustProject;
  send_words: AnswerToSendWords;
  approve_action: AnswerToApproveAction;
  reject_action: AnswerToRejectAction;
  cancel_session: AnswerToCancelSession;
  resume_session: AnswerToResumeSession;
  retry_session: AnswerToRetrySession;
  remove_session: AnswerToRemoveSession;
  stop_all: AnswerToStopAll;
  rename_session: AnswerToRenameSession;
  archive_session: AnswerToArchiveSession;
  mark_read: AnswerToMarkRead;
  retry_mail: AnswerToRetryMail;
  discard_mail: AnswerToDiscardMail;
  edit_queued: AnswerToEditQueued;
  switch_session: AnswerToSwitchSession;
  fork_session: AnswerToForkSession;
  export_session: AnswerToExportSession;
  list_checkpoints: AnswerToListCheckpoints;
  rehearse_restore: AnswerToRehearseRestore;
  restore_session: AnswerToRestoreSession;
  list_models: AnswerToListModels;
  list_modes: AnswerToListModes;
  list_branches: AnswerToListBranches;
  find_paths: AnswerToFindPaths;
  list_intents: AnswerToListIntents;
  read_trace: AnswerToReadTrace;
  blame_file: AnswerToBlameFile;
  read_settings: AnswerToReadSettings;
  change_setting: AnswerToChangeSetting;
  list_devices: AnswerToListDevices;
  revoke_device: AnswerToRevokeDevice;
  list_worktrees: AnswerToListWorktrees;
  read_stats: AnswerToReadStats;
  recreate_worktree: AnswerToRecreateWorktree;
  finish_worktree: AnswerToFinishWorktree;
  plan_apply: AnswerToPlanApply;
  apply_worktree: AnswerToApplyWorktree;
  merge_worktree: AnswerToMergeWorktree;
  plan_removal: AnswerToPlanRemoval;
  remove_worktree: AnswerToRemoveWorktree;
  list_importable: AnswerToListImportable;
  import_work: AnswerToImportWork;
  list_kept: AnswerToListKept;
  bring_back: AnswerToBringBack;
  run_script: AnswerToRunScript;
  stop_script: AnswerToStopScript;
  list_scripts: AnswerToListScripts;
  agree_script: AnswerToAgreeScript;
  review_changes: AnswerToReviewChanges;
  read_diff: AnswerToReadDiff;
  revert_file: AnswerToRevertFile;
  send_comments: AnswerToSendComments;
  compare_versions: AnswerToCompareVersions;
}

