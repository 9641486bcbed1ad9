//! A recorded file as a sensor.
