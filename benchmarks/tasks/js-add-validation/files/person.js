class Person {
  constructor(name) {
    this.name = name;
    this.age = null;
  }

  setAge(age) {
    this.age = age;
    return this;
  }

  describe() {
    return this.age === null ? this.name : `${this.name} (${this.age})`;
  }
}

module.exports = { Person };
