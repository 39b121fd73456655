import type { Todo } from "../protocol";
import { Icon } from "../ui";
import { visibleLine } from "../visible-text";

const SIGNS = { completed: "checkCircle", in_progress: "play", pending: "clock" } as const;
const WORDS = { completed: "done", in_progress: "in progress", pending: "to do" };

export function TodoItems({ todos }: { todos: readonly Todo[] }) {
  return (
    <ul class="todos">
      {todos.map((todo, at) => {
        const status = todo.status ?? "pending";
        return (
          <li key={at} class={`todo ${status}`}>
            <Icon name={SIGNS[status] ?? "clock"} />
            <span>
              {visibleLine(todo.content)}
              <span class="spoken"> ({WORDS[status] ?? status})</span>
            </span>
          </li>
        );
      })}
    </ul>
  );
}
