/**
 * Draws only the rows near the viewport and keeps the reading position.
 *
 * The reading position is a row, not a height: when rows above it change, the box is scrolled so
 * that this row stays in place. Spacers between the drawn rows are as tall as the rows they
 * replace, measured or estimated.
 */
import { signal } from "@preact/signals";
import { indexOfTs, type ShownRow } from "../view";
import { RowHeights } from "./row-heights";
import {
  sameRuns,
  MIN_MARGIN,
  mergeRuns,
  type Place,
  rowAt,
  type Run,
  visibleRun,
  focusRun,
  selectionRun,
  staysAtEnd,
} from "./visible-rows";

const USUAL_VIEW = 900;
/** Milliseconds without movement after which scrolling has ended. */
const AT_REST = 150;
/** A larger error is not a wrong estimate: rows were added. */
const LARGEST_ERROR = 600;

export class VirtualList {
  /** Changes when other rows must be drawn. */
  readonly turn = signal(0);
  /** Whether the user has scrolled away from the end. */
  readonly reading = signal(false);

  readonly #heights = new RowHeights();
  #box: HTMLElement | null = null;
  #list: HTMLElement | null = null;
  #rows: readonly ShownRow[] = [];
  #tops: Float64Array = new Float64Array(1);
  #runs: readonly Run[] = [];
  #place: Place = "end";
  /** The scroll position at the last check. */
  #top = 0;
  /** The height of the list after the last check. */
  #height = 0;
  #moving: ReturnType<typeof setTimeout> | undefined;

  /** Attaches to a scroll box and the list in it. Returns a function that detaches. */
  follow(box: HTMLElement, list: HTMLElement): () => void {
    this.#box = box;
    this.#list = list;
    const observer = new ResizeObserver(() => this.settle());
    observer.observe(box);
    observer.observe(list.parentElement!);
    this.settle();
    return () => {
      observer.disconnect();
      clearTimeout(this.#moving);
      this.#box = this.#list = null;
    };
  }

  /** The rows to draw. Called while rendering. */
  draw(rows: readonly ShownRow[]): readonly Run[] {
    if (this.#box && this.#box.scrollTop !== this.#top) this.#updatePlace();
    this.#rows = rows;
    this.#tops = this.#heights.topsOf(rows);
    this.#runs = this.#wanted(this.#tops);
    return this.#runs;
  }

  scrolled(): void {
    if (!this.#box) return; // it is being removed
    clearTimeout(this.#moving);
    this.#moving = setTimeout(() => {
      this.#moving = undefined;
      // otherwise it is scrolling again, and another event follows
      if (this.#box?.scrollTop === this.#top) this.settle();
    }, AT_REST);
    this.#updatePlace();
    this.#redraw();
  }

  toEnd(): void {
    this.#place = "end";
    this.reading.value = false;
    this.turn.value++;
  }

  /** Keeps the reading position after heights have changed. */
  settle(): void {
    const box = this.#box;
    if (!box) return;
    // wrong estimates make the list shorter for a moment, and the browser would move the view
    if (this.#place !== "end") this.#list!.style.minHeight = `${this.#height}px`;
    this.#sizeSpacers();
    if (!box.clientHeight) return;
    this.#measure();
    if (this.#place === "end" && !staysAtEnd(box, { atEnd: true, top: this.#top })) this.#updatePlace();
    this.#restorePlace();
    this.#height = this.#list!.offsetHeight;
    this.#redraw();
  }

  /** Updates the reading position from the scroll position. */
  #updatePlace(): void {
    const box = this.#box!;
    const atEnd = staysAtEnd(box, { atEnd: this.#place === "end", top: this.#top });
    if (this.#place !== "end") this.#restorePlace(); // scrolled and resized at the same time
    this.#place = atEnd ? "end" : (this.#visiblePlace() ?? this.#place);
    this.#top = box.scrollTop;
    this.reading.value = !atEnd;
  }

  #visiblePlace(): Place | null {
    const view = this.#box!.getBoundingClientRect();
    for (const element of this.#children()) {
      const { top, bottom } = element.getBoundingClientRect();
      if (bottom <= view.top || top >= view.bottom) continue;
      if (element.dataset.ts) return { ts: Number(element.dataset.ts), into: view.top - top };
      if (bottom < view.bottom) continue; // a row follows below
      const height = this.#tops[Number(element.dataset.from)]! + view.top - top;
      const at = rowAt(this.#tops, height);
      return { ts: this.#rows[at]!.ts, into: height - this.#tops[at]! - this.#heights.gapOf(this.#rows[at]!) };
    }
    return null;
  }

  #wanted(tops: Float64Array): Run[] {
    const height = this.#box?.clientHeight || USUAL_VIEW;
    const top = this.#place === "end" ? tops.at(-1)! - height : this.#topOf(this.#place, tops);
    return mergeRuns([visibleRun(tops, top, top + height), ...this.#pinnedRuns()]);
  }

  #topOf({ ts, into }: Exclude<Place, "end">, tops: Float64Array): number {
    const at = Math.min(indexOfTs(this.#rows, ts), Math.max(0, this.#rows.length - 1));
    const shown = this.#rows[at];
    return shown ? tops[at]! + this.#heights.gapOf(shown) + into : 0;
  }

  /** Rows with the focus or the selection. */
  #pinnedRuns(): Run[] {
    const focused = this.#rowOf(document.activeElement);
    const selection = getSelection();
    const [one, other] = selection?.isCollapsed === false ? [selection.anchorNode, selection.focusNode] : [null, null];
    const [from, to] = [this.#rowOf(one), this.#rowOf(other)];
    return [
      ...(focused === null ? [] : [focusRun(focused, this.#rows.length)]),
      ...(from === null || to === null ? [] : selectionRun(from, to)),
    ];
  }

  #rowOf(node: Node | null): number | null {
    if (!node || !this.#list?.contains(node)) return null;
    const element = node instanceof Element ? node : node.parentElement;
    const ts = Number(element?.closest<HTMLElement>("[data-ts]")?.dataset.ts);
    const at = indexOfTs(this.#rows, ts);
    return this.#rows[at]?.ts === ts ? at : null;
  }

  #redraw(): void {
    if (this.#seesSpacer() && !sameRuns(this.#wanted(this.#heights.topsOf(this.#rows)), this.#runs)) this.turn.value++;
  }

  #seesSpacer(): boolean {
    const view = this.#box!.getBoundingClientRect();
    return this.#children().some((element) => {
      if (element.dataset.ts) return false;
      const { top, bottom } = element.getBoundingClientRect();
      return bottom > view.top - MIN_MARGIN && top < view.bottom + MIN_MARGIN;
    });
  }

  #sizeSpacers(): void {
    for (const element of this.#children()) {
      const { from, to } = element.dataset;
      if (from === undefined || to === undefined) continue;
      const next = this.#shownBy(element.nextElementSibling as HTMLElement | null);
      const height = this.#tops[Number(to)]! - this.#tops[Number(from)]! + (next ? this.#heights.gapOf(next) : 0);
      element.style.height = `${height}px`;
    }
  }

  #measure(): void {
    let end = this.#list!.getBoundingClientRect().top;
    let afterSpacer = false;
    for (const element of this.#children()) {
      const { top, bottom, height } = element.getBoundingClientRect();
      const shown = this.#shownBy(element);
      if (shown && !height) this.#heights.learn(shown, 0, 0);
      else if (shown) this.#heights.learn(shown, height, afterSpacer ? undefined : top - end);
      afterSpacer = !shown;
      if (height) end = bottom;
    }
  }

  /** Moves the row at the reading position back to its place, except for scrolling. */
  #restorePlace(): void {
    const box = this.#box!;
    if (this.#place === "end") {
      this.#list!.style.minHeight = "";
      this.#scrollTo(box.scrollHeight - box.clientHeight);
    } else {
      const { ts, into } = this.#place;
      const found = this.#element(ts);
      const element = found?.getClientRects().length ? found : null; // it may have been folded
      const distance = () => box.getBoundingClientRect().top - (element?.getBoundingClientRect().top ?? 0);
      if (element) this.#shift(element, into + box.scrollTop - this.#top - distance());
      this.#list!.style.minHeight = "";
      // a box cannot scroll past its ends
      if (element) this.#place = { ts, into: distance() };
    }
    this.#top = box.scrollTop;
  }

  /**
   * Setting the scroll position would interrupt the user's scrolling, so a spacer above shrinks or
   * grows instead.
   */
  #shift(element: HTMLElement, error: number): void {
    const spacer = this.#spacerAbove(element);
    const room = spacer ? spacer.getBoundingClientRect().height - error : -1;
    if (this.#moving !== undefined && spacer && room >= 0 && Math.abs(error) < LARGEST_ERROR) {
      spacer.style.height = `${room}px`;
    } else {
      this.#scrollTo(this.#box!.scrollTop + error);
    }
  }

  #spacerAbove(row: HTMLElement): HTMLElement | null {
    let element: Element | null = row;
    while (element && (element as HTMLElement).dataset.from === undefined) element = element.previousElementSibling;
    return element as HTMLElement | null;
  }

  #scrollTo(top: number): void {
    const box = this.#box!;
    if (Math.abs(box.scrollTop - top) > 0.5) box.scrollTop = top;
  }

  #shownBy(element: HTMLElement | null): ShownRow | undefined {
    const ts = element?.dataset.ts;
    return ts === undefined ? undefined : this.#rows[indexOfTs(this.#rows, Number(ts))];
  }

  #element(ts: number): HTMLElement | null {
    return this.#list!.querySelector<HTMLElement>(`:scope > [data-ts="${ts}"]`);
  }

  #children(): HTMLElement[] {
    return [...this.#list!.children] as HTMLElement[];
  }
}
