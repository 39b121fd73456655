import { Icon } from "../ui";
import { line } from "../visible-text";
import { type Ask, headOf } from "./ask";

export function AskHead(props: { ask: Ask; icon: "hand" | "question" | "alert" | "flag"; words?: string }) {
  const { ask, icon, words = headOf(ask) } = props;
  return (
    <div class="ask-head">
      <Icon name={icon} />
      <h2>{line(words)}</h2>
      {ask.where && <span class="ask-where">{line(ask.where)}</span>}
    </div>
  );
}
