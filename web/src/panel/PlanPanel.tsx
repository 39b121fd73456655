import type { Todo } from "../protocol";
import { TodoItems } from "../transcript/Todos";
import { Empty } from "../ui";

/** The agent's to-do list. */
export function PlanPanel({ todos }: { todos: readonly Todo[] }) {
  if (!todos.length) {
    return (
      <Empty icon="todo">
        <p>No plan yet. The agent lists the steps of longer work here.</p>
      </Empty>
    );
  }
  const done = todos.filter((todo) => todo.status === "completed").length;
  return (
    <div class="panel-scroll plan">
      <div class="plan-head">
        <progress class="plan-bar" value={done} max={todos.length} aria-label="To-do items done" />
        <b>
          {done} of {todos.length} done
        </b>
      </div>
      <TodoItems todos={todos} />
    </div>
  );
}
