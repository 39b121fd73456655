import { Icon } from "../ui";
import { visibleLine } from "../visible-text";
import { type Ask, headOf } from "./ask";

export function AskHead(props: { ask: Ask; icon: "hand" | "question" | "alert" | "flag"; words?: string }) {
  const { ask, icon, words = headOf(ask) } = props;
  return (
    <div class="ask-head">
      <Icon name={icon} />
      <h2>{visibleLine(words)}</h2>
      {ask.where && <span class="ask-where">{visibleLine(ask.where)}</span>}
    </div>
  );
}
