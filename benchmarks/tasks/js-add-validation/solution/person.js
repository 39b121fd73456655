class Person {
  constructor(name) {
    this.name = name;
    this.age = null;
  }

  setAge(age) {
    if (typeof age !== "number") {
      throw new TypeError("the age must be a number");
    }
    if (age < 0 || age > 150) {
      throw new RangeError("the age must be from 0 to 150");
    }
    this.age = age;
    return this;
  }

  describe() {
    return this.age === null ? this.name : `${this.name} (${this.age})`;
  }
}

module.exports = { Person };
