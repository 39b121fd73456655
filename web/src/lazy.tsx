import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button, Notice, Spinner } from "./ui";

/** A screen whose code is loaded on first use. */
export function lazy<P extends object>(fetch: () => Promise<{ default: ComponentType<P> }>) {
  let fetched: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [Screen, setScreen] = useState<{ of: ComponentType<P> } | null>(fetched && { of: fetched });
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Screen || failed) return;
      let active = true;
      fetch().then(
        (module) => {
          fetched = module.default;
          if (active) setScreen({ of: module.default });
        },
        () => active && setFailed(true),
      );
      return () => {
        active = false;
      };
    }, [Screen, failed]);
    if (failed) {
      return (
        <div class="page-body">
          <Notice tone="bad" icon="alert">
            This part of the page could not be loaded. Is the manager still running?{" "}
            <Button compact onClick={() => setFailed(false)}>
              Retry
            </Button>
          </Notice>
        </div>
      );
    }
    if (!Screen) {
      return (
        <div class="empty">
          <Spinner label="Loading" />
        </div>
      );
    }
    return <Screen.of {...props} />;
  };
}
