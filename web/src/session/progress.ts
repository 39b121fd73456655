import type { Row, SessionRow } from "../protocol";
import type { Parts } from "../view";
import { visibleLine } from "../visible-text";

/** What the agent is doing, derived from its last row. */
export function progressText(last: Row | null, parts: Parts, session: SessionRow, asks = false): string {
  if (session.queued) return "Queued. It starts when a running session finishes or needs you.";
  if (session.state === "creating") return session.step ? `Starting: ${session.step}` : "Starting";
  if (asks) return "Restarting the agent; it gets your answer when it asks again";
  if (parts.silence) return `${visibleLine(parts.waiting_for ?? "") || "Waiting for the model"} (${Math.round(parts.silence)} s)`;
  switch (last?.say ?? last?.ask) {
    case "reasoning":
      return "Thinking";
    case "text":
    case "completion_result":
      return last?.partial ? "Answering" : "Working";
    case "tool":
    case "use_mcp_server":
      return last?.partial ? "Preparing a call" : "Working";
    case "command":
    case "command_output":
      return "Running a command";
    case "api_req_retry_delayed":
      return "Waiting to retry";
    case "api_req_started":
      return "Waiting for the model";
    default:
      return "Working";
  }
}
