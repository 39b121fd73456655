import { useSignal } from "@preact/signals";
import type { Todo } from "../protocol";
import { TodoItems } from "../transcript/Todos";
import { Icon } from "../ui";
import { visibleLine } from "../visible-text";

/** The agent's to-do list, collapsed to one line or expanded. */
export function Plan({ todos }: { todos: readonly Todo[] }) {
  const open = useSignal(false);
  if (!todos.length) return null;
  const done = todos.filter((todo) => todo.status === "completed").length;
  const current = todos.find((todo) => todo.status === "in_progress") ?? todos.find((todo) => todo.status !== "completed");
  return (
    <div class="plan">
      <button type="button" class="plan-head" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        <Icon name="todo" />
        <progress class="plan-bar" value={done} max={todos.length} aria-label="To-do items done" />
        <b>
          {done}/{todos.length}
        </b>
        <span class="cut grow">{current ? visibleLine(current.content) : "All done"}</span>
        <Icon name={open.value ? "up" : "down"} />
      </button>
      {open.value && <TodoItems todos={todos} />}
    </div>
  );
}
