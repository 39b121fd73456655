import { Icon } from "../ui";
import { line } from "../visible";
import { type Ask, headOf } from "./ask";

export function AskHead({ ask, icon }: { ask: Ask; icon: "hand" | "question" | "alert" | "flag" }) {
  return (
    <div class="ask-head">
      <Icon name={icon} />
      <h2>{line(headOf(ask))}</h2>
      {ask.where && <span class="ask-where">{line(ask.where)}</span>}
    </div>
  );
}
