/** Reproducible random values for tests. */
export class Random {
  constructor(private seed: number) {}

  below(limit: number): number {
    this.seed = (this.seed * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((this.seed / 2 ** 32) * limit);
  }
  of<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
  /** True with a probability of one in `of`. */
  once(of: number): boolean {
    return this.below(of) === 0;
  }
  words(): string {
    return Array.from({ length: this.below(6) }, () => this.of(["a", "ab ", "\n", "🏰", "é", "<b>"])).join("");
  }
}
