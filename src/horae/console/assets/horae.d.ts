/** A client for users' scheduled tasks, for web pages. Instants are ISO 8601 texts in UTC. */

export type ScheduleType = "cron" | "interval" | "once";
export type RunStatus = "running" | "success" | "failed";

/** What a user says about a task; what is left out stays as it was, or is the default. */
export interface TaskTerms {
  name?: string;
  enabled?: boolean;
  schedule_type?: ScheduleType;
  /** Cron with five fields, or seconds; nothing for once. */
  schedule_expr?: string | number;
  /** An IANA name such as `Asia/Shanghai`. */
  timezone?: string;
  /** What the handler gets; for dispatch `text`, and `default_agent`, `mode`, `context`. */
  payload?: Record<string, unknown>;
  /** The first run; once needs it. Without an offset it is a time of the task's own zone. */
  next_run_at?: string;
  handler?: string;
  day_match?: "and" | "or";
  lenient?: boolean;
}

export interface ScheduledTask {
  readonly id: string;
  readonly user_id: string;
  readonly name: string;
  readonly enabled: boolean;
  readonly schedule_type: ScheduleType;
  readonly schedule_expr: string;
  readonly timezone: string;
  readonly payload: Record<string, unknown> | null;
  readonly next_run_at: string | null;
  readonly last_run_at: string | null;
  readonly last_status: RunStatus | null;
  readonly locked_by: string | null;
  readonly locked_until: string | null;
  readonly created_at: string | null;
  readonly updated_at: string | null;
  readonly version: number;
  readonly handler: string;
  /** The schedule in words. */
  readonly words: string;
  readonly day_match: string;
  readonly lenient: boolean;
  /** It does not run although it is enabled; `reason` says why. */
  readonly inactive: boolean;
  readonly reason: string | null;
  readonly warnings: readonly string[];
  readonly deduplicated: boolean;
}

export interface ScheduledTaskRun {
  readonly id: string;
  readonly task_id: string;
  readonly user_id: string;
  readonly status: RunStatus;
  readonly trace_id: string | null;
  readonly started_at: string | null;
  readonly finished_at: string | null;
  readonly error: string | null;
  readonly result: unknown;
  readonly outcome: string;
  readonly attempt: number;
  readonly trigger: string;
  readonly planned_at: string | null;
  readonly job_id: string;
  readonly worker_id: string | null;
}

export interface TriggeredTask {
  readonly task_id: string;
  readonly job_id: string | null;
  readonly triggered_at: string;
  readonly warnings: readonly string[];
}

export interface TaskPreview {
  readonly schedule_type: ScheduleType;
  readonly schedule_expr: string;
  readonly timezone: string;
  readonly words: string;
  readonly next: readonly { readonly at: string; readonly local: string }[];
  readonly clocks: readonly { readonly at: string; readonly change: string; readonly effect: string }[];
  readonly warnings: readonly string[];
}

export interface TaskLimits {
  readonly enabled: number;
  /** 0: any number. */
  readonly max_enabled: number;
  /** Seconds. */
  readonly shortest_interval: number;
  readonly handler: string;
  readonly handlers: readonly string[];
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

export interface Options {
  /** Where the service answers, such as `https://horae.example`. */
  url: string;
  /** A bearer token with the scope `tasks`, or a function that returns it, called for every request. */
  token: string | (() => string | Promise<string>);
  /** The language of words and errors, such as `zh`; as the browser says otherwise. */
  lang?: string;
  fetch?: (address: string, init: RequestInit) => Promise<Response>;
}

export interface Common {
  signal?: AbortSignal;
}
export interface PageOptions extends Common {
  cursor?: string;
  limit?: number;
}
export interface CreateOptions extends Common {
  /** The same key with the same terms makes no second task; random unless given. */
  key?: string;
}
export interface VersionOptions extends Common {
  /** Only if it is still this version; else an error with the status 412. */
  version?: number;
}
export interface TriggerOptions extends Common {
  payload?: Record<string, unknown>;
  reason?: string;
}
export interface PreviewOptions extends Common {
  count?: number;
}

export interface Tasks {
  list(options?: PageOptions): Promise<Page<ScheduledTask>>;
  /** All tasks, fetched page by page. */
  each(options?: Common): AsyncGenerator<ScheduledTask, void, void>;
  create(terms: TaskTerms, options?: CreateOptions): Promise<ScheduledTask>;
  get(id: string, options?: Common): Promise<ScheduledTask>;
  update(id: string, terms: TaskTerms, options?: VersionOptions): Promise<ScheduledTask>;
  delete(id: string, options?: VersionOptions): Promise<void>;
  runs(id: string, options?: PageOptions): Promise<Page<ScheduledTaskRun>>;
  trigger(id: string, options?: TriggerOptions): Promise<TriggeredTask>;
  /** When a task runs, or would run with these terms. */
  preview(idOrTerms: string | TaskTerms, options?: PreviewOptions): Promise<TaskPreview>;
  limits(options?: Common): Promise<TaskLimits>;
}

export class Horae {
  constructor(options: Options);
  readonly tasks: Tasks;
}

/** What the service refused, or that it could not be reached (status 0). */
export class HoraeError extends Error {
  constructor(status: number, problem: unknown, requestId?: string | null);
  readonly status: number;
  /** A stable word, such as `quota_exceeded`. */
  readonly code: string;
  /** More precise than the code. */
  readonly reason: string | null;
  readonly facts: Record<string, unknown>;
  /** What an operator finds in the log. */
  readonly requestId: string | null;
}
