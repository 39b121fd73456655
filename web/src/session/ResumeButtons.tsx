import type { SessionRow } from "../protocol";
import { Button } from "../ui";
import { resume, retry } from "./session-actions";

/** Buttons that retry or resume a stopped session. */
export function ResumeButtons({ row, primary = false }: { row: SessionRow; primary?: boolean }) {
  const { flags } = row;
  return (
    <>
      {flags.show_retry_button && (
        <Button icon="retry" kind={primary ? "primary" : "usual"} title="Retry (s)" onClick={() => retry(row)}>
          Retry
        </Button>
      )}
      {flags.show_resume_button && row.state !== "completed" && (
        <Button
          icon="play"
          kind={primary && !flags.show_retry_button ? "primary" : "usual"}
          title="Resume (s)"
          onClick={() => resume(row)}
        >
          Resume
        </Button>
      )}
    </>
  );
}
