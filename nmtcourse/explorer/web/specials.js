/** The special ids, the same in every vocabulary of nmtlib. */

export const PAD = 0;
export const BOS = 1;
export const EOS = 2;
export const UNK = 3;

export const SPECIALS = 4; // how many
