import { Component, type ComponentChild, type FunctionComponent, h } from "preact";

/** Re-renders the component only if a prop changes. */
export function memo<P extends object>(inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const names = new Set([...Object.keys(this.props), ...Object.keys(next)]) as Set<keyof P>;
      return [...names].some((name) => this.props[name] !== next[name]);
    }
    override render(): ComponentChild {
      return h(inner, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
