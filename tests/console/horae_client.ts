// Checked by TypeScript in `make lint`, never run: what a caller may write, and what it may not.

import { Horae, HoraeError, type Page, type ScheduledTask, type TaskPreview } from "../../src/horae/console/assets/horae.js";

export async function use(): Promise<string> {
  const horae = new Horae({ url: "https://horae.example", token: async () => "t" });
  const page: Page<ScheduledTask> = await horae.tasks.list({ limit: 10 });
  const task = await horae.tasks.create({ name: "a", schedule_type: "interval", schedule_expr: 60 }, { key: "k" });
  await horae.tasks.update(task.id, { enabled: false }, { version: task.version });
  const preview: TaskPreview = await horae.tasks.preview({ schedule_expr: "0 9 * * *" }, { count: 3 });
  for await (const each of horae.tasks.each()) await horae.tasks.trigger(each.id, { payload: { text: "now" } });
  const runs = await horae.tasks.runs(task.id);
  const status: "running" | "success" | "failed" | undefined = runs.items[0]?.status;
  // @ts-expect-error there is no such type of schedule
  await horae.tasks.create({ schedule_type: "sometimes" });
  // @ts-expect-error a token is needed
  new Horae({ url: "https://horae.example" });
  // @ts-expect-error answers are read, not written
  task.name = "b";
  try {
    await horae.tasks.delete(task.id);
  } catch (error) {
    if (error instanceof HoraeError && error.status === 404) return error.code;
  }
  return `${page.next_cursor}${preview.next[0]?.local}${status}`;
}
